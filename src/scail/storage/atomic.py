"""The one way to write a file: aside, onto the disk, and then in one step into its place.

What is flushed, and when, stands in `flushing`. Whoever reads, and whoever comes after a crash, finds the old content
or the new, never half of either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from scail.storage.flushing import Flushed, flush, flush_below

ASIDE = re.compile(r"\.scail-(.{1,40}\.)?[0-9a-f]{32}", re.DOTALL)
"""The name of what is being written; a process that died leaves it behind. Version 0.1 did not name the file in it."""
LEFT = 3600.0
"""Seconds after which what is written without a lock, and was not touched, counts as left by a process that died."""


def aside_name(path: Path) -> Path:
    """A new name beside this one; it begins with `.scail-NAME.`, cut where a name could get too long."""
    return path.with_name(f".scail-{path.name[:40]}.{uuid.uuid4().hex}")


@contextlib.contextmanager
def aside(path: Path, flushed: Flushed = Flushed.NAME) -> Iterator[Path]:
    """Where to write a file, or a folder of files, that becomes `path` at the end, or never.

    A file replaces what is there. A folder does not: one that another process has put there meanwhile stays.
    `flushed`: what of it is on the disk when this ends.
    """
    begun = aside_name(path)
    try:
        with named(path, begun):
            yield begun
            if flushed is not Flushed.NOTHING:
                flush_below(begun) if begun.is_dir() else flush(begun)
            try:
                begun.replace(path)
            except OSError:
                if not (begun.is_dir() and path.is_dir()):
                    raise
            if flushed is Flushed.NAME:
                flush(path.parent, named=path)
    finally:
        if begun.is_dir():
            shutil.rmtree(begun, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):  # what was wrong before is what is told; a sweep takes it later
                begun.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes, flushed: Flushed = Flushed.NAME) -> None:
    """Write a file in one step."""
    with aside(path, flushed) as begun:
        begun.write_bytes(data)


def write_text(path: Path, text: str, flushed: Flushed = Flushed.NAME) -> None:
    """Write a file of text in one step."""
    write_bytes(path, text.encode(), flushed)


@contextlib.contextmanager
def named(path: Path, also: Path | None = None) -> Iterator[None]:
    """Errors of the system name this file where they name none (those of writing do not), or where they name `also`."""
    try:
        yield
    except OSError as error:
        of_this = error.filename is None or (also is not None and str(error.filename).startswith(str(also)))
        if error.errno is not None and of_this:
            error.filename, error.filename2 = str(path), None
        raise


_FREE, _WRITABLE = "free some space there", "make it writable, or choose another place"
_TO_DO = {
    errno.ENOSPC: _FREE, errno.EDQUOT: _FREE, errno.EFBIG: _FREE,
    errno.EROFS: _WRITABLE, errno.EACCES: _WRITABLE, errno.EPERM: _WRITABLE,
    errno.EIO: "look at the disk, or at the connection to it",
}  # fmt: skip


def told(error: OSError) -> str:
    """An error of the system in words: which file, what is wrong, and what to do.

    >>> told(OSError(errno.ENOSPC, "No space left on device", "runs/a/config.json"))
    'runs/a/config.json: No space left on device; free some space there, then give the same command again'
    """
    place = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
    what = _TO_DO.get(error.errno or 0)
    return f"{place}{error.strerror or error}" + (f"; {what}, then give the same command again" if what else "")


def sweep(folder: Path, after: float = 0.0) -> None:
    """Remove what processes that died were writing here, where it was not touched for so many seconds.

    Without them, hold the folder's lock: nobody else is writing.
    """
    for path in [*folder.iterdir()]:
        if ASIDE.fullmatch(path.name) and (not after or time.time() - path.lstat().st_mtime > after):
            path.unlink(missing_ok=True)
