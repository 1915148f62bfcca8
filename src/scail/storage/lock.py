"""Folders of ours: claimed if nobody else's files are in them, and held by one process at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from scail.storage.atomic import ASIDE
from scail.storage.flushing import make_folder

LOCK = ".lock"
"""The lock of a folder that has no other name for it."""


@contextlib.contextmanager
def locked(path: Path, taken: Exception | None = None, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock at this path. It is the system's: when the process that holds it dies, the next one gets it.

    While another process holds it: `taken` is raised at once; or, where it is None, this one waits, and calls `waiting`
    twice a second, which may raise to give up.
    """
    from filelock import FileLock, Timeout

    held = FileLock(path)
    while not held.is_locked:
        try:
            held.acquire(timeout=0.5 if taken is None else 0)
        except Timeout:
            if taken is not None:
                raise taken from None
            waiting()
    try:
        yield
    finally:
        held.release()


def claim(
    folder: Path,
    named: str,
    marks: Collection[str],
    foreign: str,
    *,
    own: Callable[[str], bool] = lambda name: False,
    error: type[ValueError] = ValueError,
    make: bool = True,
) -> None:
    """Make this folder, or take it as it is if it is ours. Otherwise it is left alone: that is an error.

    Ours is what holds one of the `marks`, or nothing but what is `own`: another process, or one that was killed, may
    have begun it. Locks and what is being written are own anyway.

    The error begins with `named` and ends with `foreign`, in which {name} stands for somebody else's file.
    """
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise error(f"{named}: is a {'file' if folder.exists() else 'link to nothing'}; give a directory")
    inside = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    others = [name for name in inside if not (name == LOCK or ASIDE.fullmatch(name) or own(name))]
    # Looked at last: another process may just have made the folder.
    if others and not any((folder / mark).exists() for mark in marks):
        raise error(f"{named}: {foreign.format(name=others[0])}")
    if make:
        make_folder(folder)
