"""What is flushed to the disk, and in which order. This is the one list of it; `atomic.aside` goes by it.

A power failure keeps what was flushed, and of all else whatever it likes. A file that is flushed has its content; a
folder that is flushed has its names. So the order is always: content, then the name, then whatever counts on them.

    model       pictures, their folders, numbers, answer, the folder; then manifest.json, and the folder again
    state       its files, their names; then its folder, by its name in states/. One that goes: first its name
    run         nothing is flushed while it runs: the store has what is dear. At its end all of it, table.md last
    grid        as its runs; grid.json before them
    kept        a configuration's file, whole, then its name
    job         pictures and job.json, their names; then its folder, by its name in jobs/: only then it is accepted
    packed      each part whole and by its name; then about.json, by its name
    checkpoint  content before name: where the name is lost, an older one is there, and time is lost
"""

from __future__ import annotations

import contextlib
import errno
import os
from enum import Enum
from pathlib import Path

_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP)  # of file systems that flush names by themselves


class Flushed(Enum):
    """What of a file is on the disk when it has been written. `NAME` is for everything that is not named below it."""

    NAME = "its content before it gets its name, then its name"
    CONTENT = "its content before it gets its name"
    """A model's numbers and its manifest, whose folder is flushed by who writes them; checkpoints; figures."""
    NOTHING = "nothing"
    """What is flushed later, together: a model's pictures, and the lines that a run begins with. And what can be lost:
    the cache (checksums tell), a server's inbox and reports, crops of faces (an empty one is made again)."""


def flush(path: Path, named: Path | None = None) -> None:
    """What is in this file, or the names in this folder, are on the disk. An error names `named`, or else this."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (path.is_dir() and error.errno in _NO_FOLDERS):
            error.filename = str(named or path)
            raise
    finally:
        os.close(descriptor)


def flush_below(folder: Path) -> None:
    """All files below this folder, and all names; links are not followed."""
    for place, _, names in os.walk(folder, topdown=False):
        for path in (Path(place) / name for name in names):
            if path.is_file() and not path.is_symlink():
                flush(path)
        flush(Path(place))


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder where there is none, and those around it; their names are on the disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode)
    if not folder.is_dir():
        raise FileExistsError(errno.EEXIST, "a file is in the way", str(folder))
    with contextlib.suppress(PermissionError):  # of a folder around it whose names may not be read
        flush(folder.parent, named=folder)
