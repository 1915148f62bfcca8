"""A process that dies just before one of its operations on files, without a word: nothing of it is cleaned up."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime", "os.truncate", "open")
_KILLED = 87


def killed_before(operation: int, root: Path, work: Callable[[], object], cut: bool) -> bool:
    """Do it in a process that dies before this change of files below `root`; whether it lived long enough to die.

    `cut`: the file that was opened last has but half of its content, as if it had died while it wrote.
    """
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons: threads do not come along
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == _KILLED
    try:
        _die_before(operation, str(root), cut)
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def _die_before(operation: int, root: str, cut: bool) -> None:
    done, opened = 0, ""

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done, opened
        if event not in _CHANGES or not str(arguments[0]).startswith(root):
            return
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        if done == operation:
            done = -(10**9)
            if cut and opened:
                with contextlib.suppress(OSError):
                    os.truncate(opened, Path(opened).stat().st_size // 2)
            os._exit(_KILLED)
        done += 1
        opened = str(arguments[0]) if event == "open" else opened

    sys.addaudithook(count)
