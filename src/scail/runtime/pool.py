"""A function of one item, over many items, in several processes, in order."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for_end
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 8  # items given out for each process: enough that none waits, few enough that results fit in memory


def map_in_order(
    work: Callable[[_Item], _Result], items: Sequence[_Item], processes: int
) -> Generator[_Result, None, None]:
    """work(item) for each item, in the order of the items; with one process or one item, in this very process.

    Close the iterator, or let an exception do it, and the processes end at once: `work` must not need to finish.
    """
    if min(processes, len(items)) <= 1:
        yield from map(work, items)
        return
    # spawn, not fork: the threads of torch and OpenCV do not survive it
    pool = ProcessPoolExecutor(min(processes, len(items)), get_context("spawn"), _begin_worker)
    waiting = deque[tuple[_Item, Future[_Result]]]()
    try:
        for item in items:
            with _ctrl_c_held():
                waiting.append((item, pool.submit(work, item)))
            if len(waiting) >= _AHEAD * processes:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _next(waiting: deque[tuple[_Item, Future[_Result]]]) -> _Result:
    item, future = waiting.popleft()
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise ValueError(
            f"a process was killed from outside (out of memory?), at {item} or shortly after. "
            "Nothing is lost: the same command goes on; fewer processes need less memory"
        ) from error


@contextlib.contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Processes begun meanwhile never see Ctrl-C: this one does, a moment later, and ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os._exit(1)  # nobody is left to receive results
