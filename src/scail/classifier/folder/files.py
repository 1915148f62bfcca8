"""Files of a classifier's folder: their names, safe reading, the lock, unfinished trainings."""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from scail.classifier.folder.record import (
    LOCK,
    MANIFEST,
    PICTURES,
    TENSOR_FILE,
    UNFINISHED,
    UNFINISHED_FILE,
    FolderError,
)
from scail.storage import lock
from scail.storage.atomic import named, told
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry
from scail.storage.lock import claim

_SECONDS_BETWEEN = 5.0  # of an unfinished training on the disk


def class_folder(name: str) -> str:
    """The folder of a class: its name as far as a file name can carry it, and a hash that tells it from any other.

    >>> class_folder("a cat/../dog")
    'a-cat-dog-7d0ad92c520a'
    """
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:40]
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def prepare(root: Path) -> None:
    """Make the folder; an error if it holds something else, or links that lead out of it."""
    links = [name for name in (LOCK, UNFINISHED, *PICTURES) if (root / name).is_symlink()]
    links += [
        f"{kind}/{path.name}"
        for kind in PICTURES
        if (root / kind).is_dir()
        for path in (root / kind).iterdir()
        if path.is_symlink()
    ]
    if links:
        raise FolderError(f"{root / links[0]}: a symbolic link, which a model's folder does not have; remove it")
    foreign = "holds {name!r} and is not a scail model; give a new or an empty folder"
    claim(root, str(root), {MANIFEST}, foreign, own=_is_own, error=FolderError)


def _is_own(name: str) -> bool:
    return name in (LOCK, UNFINISHED, *PICTURES) or bool(TENSOR_FILE.fullmatch(name))


@contextlib.contextmanager
def locked(root: Path, wait: bool = True, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """One process at a time changes the folder; the system releases the lock when its holder dies."""
    text = f"{root}: another process is learning into this model"
    taken = None if wait else FolderError(f"{text}; try again later")
    with contextlib.ExitStack() as held:
        with clear_errors(root):
            prepare(root)
            said_once = cache(lambda: say(f"{text}: waiting for it"))
            held.enter_context(lock.locked(root / LOCK, taken, said_once))
        yield


def unfinished(root: Path) -> Callable[[str], Checkpoint]:
    """Where the unfinished training of this key is kept. Those of other keys are removed: they will not go on."""

    def checkpoint(key: str) -> Checkpoint:
        folder = root / UNFINISHED
        with clear_errors(root):
            folder.mkdir(exist_ok=True)
            for path in folder.iterdir():
                other = not path.name.startswith(key) and UNFINISHED_FILE.fullmatch(path.name)
                if other or path.is_symlink():  # a link may lead out of the folder
                    path.unlink()
        return Sparing(folder / f"{key}.safetensors")

    return checkpoint


@dataclass(frozen=True)
class Sparing(Checkpoint):
    """A checkpoint that is written every few seconds, not after every epoch: epochs of few images are short."""

    written: list[float] = field(default_factory=lambda: [time.monotonic()])

    def save(self, entry: Entry) -> None:
        """Replace what was saved before, if that was long enough ago."""
        if time.monotonic() - self.written[0] >= _SECONDS_BETWEEN:
            super().save(entry)
            self.written[0] = time.monotonic()

    def stage(self, name: str) -> Sparing:
        """The checkpoint of one stage of the training."""
        return Sparing(super().stage(name).path, self.written)


@contextlib.contextmanager
def clear_errors(root: Path) -> Iterator[None]:
    """Full disk, read-only folder: say which file, and what to do."""
    try:
        with named(root):
            yield
    except OSError as error:
        raise FolderError(f"cannot write to {told(error)}. The model that was there is as it was") from error
