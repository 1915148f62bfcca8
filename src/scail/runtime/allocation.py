"""Freed memory: in a training what one batch frees serves the next; a server hands it back."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # as in malloc.h
_MOST_FREED, _LARGEST_KEPT = 2**31 - 1, 32 * 2**20  # the most that the C library takes


def keep_freed_memory() -> bool:
    """Tell the C library not to hand freed memory back to the system at once; False where it cannot be told.

    A training batch frees and asks for the same few megabytes many times. Handed back each time, they come as new pages
    that the system must clear: an eighth of the time of a small network. The process holds on to what it used at most.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library than glibc
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT) and mallopt(_M_TRIM_THRESHOLD, _MOST_FREED))


def hand_back_freed_memory() -> None:
    """Give the system what the C library holds and nobody uses: after a model was replaced, tens of megabytes."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
