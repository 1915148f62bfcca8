"""Everything that a store and the cache keep, read from its place again, with every checksum worked out anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scail.storage.cache import kept_images
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import DamagedEntry, StoreError
from scail.storage.holdings import Holding
from scail.storage.sealed import BrokenSeal, read_sealed
from scail.storage.store import Store

Verdict = Literal["sound", "damaged", "unknown"]


@dataclass(frozen=True)
class Inspected:
    """Something that was read again, and what came of it."""

    kind: str
    """What it is, in the plural."""
    verdict: Verdict
    """Unknown: it could not be read, or another scail wrote it; nothing is said against it."""
    said: str = ""
    """What is wrong with which file."""
    remove: Callable[[], object] = lambda: None
    """Takes it away."""


def inspected(store: Store) -> Iterator[Inspected]:
    """States where they lie, which may be behind a URL, and the unfinished trainings of this machine."""
    for key in sorted(store.keys()):
        yield _state(store, key)
    for one in store.held():
        if one.kind == "training":
            yield _training(store, one)


def _state(store: Store, key: str) -> Inspected:
    try:
        store.reread(key)
    except DamagedEntry as damage:
        return Inspected("states", "damaged", str(damage), lambda: store.remove(key))
    except StoreError as error:
        return Inspected("states", "unknown", str(error))
    return Inspected("states", "sound")


def _training(store: Store, one: Holding) -> Inspected:
    kind = "unfinished trainings"
    if Checkpoint(one.path).load() or not one.path.exists():  # the process that is at it may have removed it
        return Inspected(kind, "sound")
    said = f"{one.path}: its checksum does not match, or it is of an older scail"
    return Inspected(kind, "damaged", said, lambda: store.discard(one))


def inspected_images() -> Iterator[Inspected]:
    """The decoded copies of images in the cache."""
    for path in kept_images():
        yield _copy(path)


def _copy(path: Path) -> Inspected:
    kind = "decoded copies of images"
    try:
        read_sealed(path)
    except BrokenSeal as damage:
        return Inspected(kind, "damaged", str(damage), lambda: path.unlink(missing_ok=True))
    except OSError as error:
        return Inspected(kind, "unknown", f"{path}: {error.strerror or error}")
    return Inspected(kind, "sound")
