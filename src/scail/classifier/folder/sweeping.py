"""What a process that was killed has left in a model's folder: found, and taken away. No torch is imported.

A change that is killed can leave more pictures than the model keeps, or those of a class that it has just forgotten.
Whoever comes next removes them: a change, and every command that reads.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scail.classifier.folder.card import CARD, described_by, read_card
from scail.classifier.folder.record import (
    CLASS_FOLDER,
    LOCK,
    MANIFEST,
    PICTURE_FILE,
    PICTURES,
    TENSOR_FILE,
    UNFINISHED,
    UNFINISHED_FILE,
    FolderError,
    read_record,
)  # fmt: skip
from scail.storage.atomic import ASIDE
from scail.storage.lock import locked


def sweep(root: Path, unfinished: bool = True) -> None:
    """Remove every file of the folder's own kinds that the manifest does not name, perhaps with unfinished work.

    Files of other kinds are somebody else's and stay. Hold the lock meanwhile. A file that cannot be removed keeps no
    other from going, and is an error then.
    """
    left = [*left_over(root)]
    if unfinished and (root / UNFINISHED).is_dir():
        inside = (root / UNFINISHED).iterdir()
        left += (path for path in inside if UNFINISHED_FILE.fullmatch(path.name) or ASIDE.fullmatch(path.name))
    failed = list[OSError]()
    for path in left:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            failed.append(error)
    for kind in PICTURES:
        for folder in (*_class_folders(root / kind), root / kind):
            with contextlib.suppress(OSError):  # not empty, or not there
                folder.rmdir()
    if failed:
        raise failed[0]
    if unfinished:
        with contextlib.suppress(OSError):  # somebody else's files are in it, or it is not there
            (root / UNFINISHED).rmdir()


def tidy(root: Path) -> str | None:
    """Take away what is left over in a model's folder, unless somebody is changing it now; gives what to tell then."""
    left = list[Path]()
    try:
        left += left_over(root) if (root / MANIFEST).exists() else ()
        if left and not (root / LOCK).is_symlink():
            with locked(root / LOCK, FolderError("somebody is changing it, and these may be new")):
                sweep(root, unfinished=False)
    except FolderError:
        return None  # or its manifest is damaged: whoever reads it says so
    except OSError as error:
        return f"{root}: {len(left)} files of a change that was killed cannot be removed ({error.strerror or error})"
    return None


def left_over(root: Path) -> Iterator[Path]:
    """Files of the folder's own kinds that its manifest does not name, but for unfinished work."""
    named, stamp = set[str](), ""
    if (root / MANIFEST).exists():
        record, data = read_record(root)
        named, stamp = set(_named(record)), hashlib.sha256(data).hexdigest()
    if (card := read_card(root)) is not None and described_by(card) not in (None, stamp):
        yield root / CARD  # of the model before: it may name a class that was forgotten
    for path in root.iterdir():
        if ASIDE.fullmatch(path.name) or (TENSOR_FILE.fullmatch(path.name) and path.name not in named):
            yield path
    for kind in PICTURES:
        for folder in _class_folders(root / kind):
            for path in folder.iterdir():
                own = PICTURE_FILE.fullmatch(path.name) and f"{kind}/{folder.name}/{path.name}" not in named
                if own or ASIDE.fullmatch(path.name):
                    yield path


def _named(record: Any, pictures: bool = True) -> Iterator[str]:
    """Every file that a manifest names; of the model before, which it names, too, only files of numbers are kept."""
    if isinstance(record, list):
        for one in record:
            yield from _named(one, pictures)
    elif isinstance(record, dict):
        if isinstance(name := record.get("name"), str):
            yield name
        for kind, key in zip(PICTURES, ("exemplars", "held_out"), strict=True):
            if pictures and isinstance(hashes := record.get(key), list):
                yield from (f"{kind}/{record.get('folder')}/{one}.png" for one in hashes)
        for key, one in record.items():
            yield from _named(one, pictures and key != "before")


def _class_folders(place: Path) -> list[Path]:
    if not place.is_dir() or place.is_symlink():
        return []
    return [f for f in place.iterdir() if f.is_dir() and not f.is_symlink() and CLASS_FOLDER.fullmatch(f.name)]
