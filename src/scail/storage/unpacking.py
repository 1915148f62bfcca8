"""Files that are packed, unpacked up to a bound: a megabyte can hold a gigabyte, and one that lies much more."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from scail.storage.reading import MIB, size_text

_MOST_MEMBERS = 100_000
_MOST_AT_ONCE = 1024 * MIB
_UNSOUND = (tarfile.TarError, OSError, EOFError, ValueError, ArithmeticError, LookupError, TypeError, zlib.error)
"""What tarfile and gzip raise on files that are none of theirs."""


class _Bounded(io.RawIOBase):
    """What comes out of a packed file, up to so many bytes in all; never a gigabyte at once."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most = file, most

    def read(self, size: int = -1, /) -> bytes:
        """The next so many bytes."""
        if not 0 <= size <= _MOST_AT_ONCE or self._file.tell() + size > self._most + MIB:
            raise tarfile.ReadError(f"more than {size_text(self._most)} unpacked")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Unpack, and let go, up to there."""
        if whence != 0 or offset > self._most + MIB:
            raise tarfile.ReadError(f"more than {size_text(self._most)} unpacked")
        return self._file.seek(offset)

    def tell(self) -> int:
        """How much came out."""
        return self._file.tell()


def read_members(archive: Path, wanted: Callable[[str], str | None], most: int) -> dict[str, bytes]:
    """The members of a tar file, packed by gzip or plain, that `wanted` gives a name; each of at most so many bytes.

    Nothing is written to the disk. A tar file that unpacks to more than four times as much is none of ours.
    """
    found = dict[str, bytes]()
    try:
        with archive.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if packed else raw as file:
                _read_wanted(_Bounded(file, 4 * most), wanted, most, found)  # type: ignore[arg-type]
    except _UNSOUND as error:
        raise ValueError(f"{archive}: cannot be read ({error or type(error).__name__}); download it again") from error
    return found


def _read_wanted(file: _Bounded, wanted: Callable[[str], str | None], most: int, found: dict[str, bytes]) -> None:
    with tarfile.open(fileobj=file, mode="r:") as tar:
        for number, member in enumerate(tar):
            tar.members = []  # type: ignore[attr-defined]  # it would keep a record of each
            if number >= _MOST_MEMBERS:
                raise tarfile.ReadError(f"more than {_MOST_MEMBERS} members")
            name = wanted(member.name)
            if name is None or not member.isfile():
                continue
            if member.size > most:
                size = size_text(member.size)
                raise tarfile.ReadError(f"{member.name[:80]!r} has {size}, expected at most {size_text(most)}")
            content = tar.extractfile(member)
            assert content is not None
            found[name] = content.read()


def read_unpacked(path: Path, most: int) -> bytes:
    """What is in a file, packed by gzip if its name ends so: at most so many bytes of it, and one more."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            parts = list[bytes]()
            while more := file.read(min(MIB, most + 1 - sum(map(len, parts)))):
                parts.append(more)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read ({error}); download it again") from error
    return b"".join(parts)
