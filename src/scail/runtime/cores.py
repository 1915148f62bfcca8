"""The cores of this machine, and what several processes do with them."""

from __future__ import annotations

import os

_SECOND_PROCESS = 0.4
"""What a further process is taken to add: cores share memory and caches, so that two processes of one thread do about
1.4 times the work of one, not twice. It is better to promise too little."""


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def speed_of(processes: int) -> float:
    """How many times the work of one process so many do together.

    >>> speed_of(1)
    1.0
    """
    return 1 + _SECOND_PROCESS * (min(processes, available_cores()) - 1)
