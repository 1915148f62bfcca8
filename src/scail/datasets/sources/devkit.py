"""ILSVRC2012's development kit: which class has which id, and the labels of the validation images.

The ids are not the alphabet's: iCaRL's class order needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scail.datasets.sources.mat_file import Value, read_table
from scail.storage.reading import MIB, read_bounded, why
from scail.storage.unpacking import read_members

NAME = "ILSVRC2012_devkit_t12"
_META = "data/meta.mat"
_TRUTH = "data/ILSVRC2012_validation_ground_truth.txt"
_MOST = 64 * MIB  # bytes of either
_DIGITS = 9  # of an id, at most: Python takes no number of thousands


@dataclass(frozen=True)
class Devkit:
    """What the kit says."""

    path: Path
    wnids: tuple[str, ...]
    """The classes (WordNet ids) in the order of their ids: id c is `wnids[c - 1]`."""
    truth: str | None
    """The text with the id of each validation image, if the kit has it."""

    def validation_wnids(self) -> list[str]:
        """The class of each validation image, in the order of the images' numbers."""
        found = []
        for number, line in enumerate((self.truth or "").splitlines(), 1):
            text = line.strip()
            if not (text.isdecimal() and len(text) <= _DIGITS and 1 <= int(text) <= len(self.wnids)):
                raise ValueError(
                    f"{self.path}, {_TRUTH}, line {number}: {line[:80]!r}: expected an id of 1 to {len(self.wnids)}"
                )
            found.append(self.wnids[int(text) - 1])
        return found


def find_devkit(places: Sequence[Path]) -> Devkit | None:
    """The first kit in these folders, unpacked or as it was downloaded."""
    for place in places:
        unpacked, archive = place / NAME, place / f"{NAME}.tar.gz"
        if (unpacked / _META).is_file():
            truth = unpacked / _TRUTH
            text = read_bounded(truth, _MOST).decode("ascii", "replace") if truth.is_file() else None
            return Devkit(unpacked, _wnids(read_bounded(unpacked / _META, _MOST), unpacked / _META), text)
        if archive.is_file():
            members = read_members(archive, _inner_name, _MOST)
            if _META not in members:
                raise ValueError(f"{archive}: holds no {_META}; download it again")
            text = members[_TRUTH].decode("ascii", errors="replace") if _TRUTH in members else None
            return Devkit(archive, _wnids(members[_META], archive), text)
    return None


def _inner_name(name: str) -> str | None:
    """Which of the two files that matter this is; nothing is unpacked into the user's data."""
    return next((inner for inner in (_META, _TRUTH) if f"/{name}".endswith(f"/{inner}")), None)


def _wnids(meta: bytes, where: Path) -> tuple[str, ...]:
    """The leaves of the kit's tree of classes, in the order of their ids, which are 1..n (1000 in the real one)."""
    try:
        synsets = read_table(meta, "synsets", _MOST)
        leaves = {_whole(s["ILSVRC2012_ID"]): str(s["WNID"]) for s in synsets if s["num_children"] == 0}
    except (ValueError, LookupError) as error:
        raise ValueError(
            f"{where}: cannot be read as the devkit's meta.mat ({why(error)}); unpack {NAME}.tar.gz again"
        ) from error
    if not leaves or sorted(leaves) != list(range(1, len(leaves) + 1)):
        raise ValueError(
            f"{where}: expected classes with the ids 1..n, found {sorted(leaves)[:5]} ...; download it again"
        )
    return tuple(leaves[number] for number in sorted(leaves))


def _whole(value: Value) -> int:
    if not isinstance(value, int | float) or value != value // 1:
        raise ValueError(f"the id {value!r} is no whole number")
    return int(value)
