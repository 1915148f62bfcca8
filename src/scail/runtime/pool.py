"""Processes that work for this one. They end with it, and where one of them fails, all end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for_end
from pathlib import Path
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 8  # items given out for each process: enough that none waits, few enough that results fit in memory
SPAWN = get_context("spawn")  # not fork: the threads of torch and OpenCV do not survive it
STOPPING = frozenset({signal.SIGINT, signal.SIGTERM})
"""What asks a program to stop: Ctrl-C, and `kill`."""
Submit = Callable[..., Future[Any]]
"""submit(function, *arguments): have it done by a process of the pool."""


@contextlib.contextmanager
def signals_held(numbers: Collection[signal.Signals]) -> Iterator[None]:
    """Processes begun meanwhile get none of these signals until they let them through; this one gets its own later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def script_left_alone() -> Iterator[None]:
    """Processes begun meanwhile do not run the user's script again, unless it says what of it is for the main one.

    They import the script as a module. One without `if __name__ == "__main__":` would start everything anew in each.
    """
    main = sys.modules["__main__"]
    path = vars(main).get("__file__")
    if path is None or getattr(main, "__spec__", None) is not None or _is_guarded(path):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = path


def _is_guarded(script: str) -> bool:
    try:
        return "__name__" in Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:  # from standard input: no process can read it again
        return False


@contextlib.contextmanager
def process_pool(
    count: int,
    held: Collection[signal.Signals],
    begin: Callable[..., None] | None = None,
    arguments: tuple[object, ...] = (),
) -> Iterator[Submit]:
    """Up to `count` processes. Each starts with these signals held, and with begin(*arguments), if there is something.

    An exception ends them, by SIGTERM. They are waited for; a second Ctrl-C ends them at once.
    """
    pool = ProcessPoolExecutor(count, SPAWN, _begin_worker, (begin, arguments))

    def submit(function: Callable[..., Any], *given: object) -> Future[Any]:
        with signals_held(held), script_left_alone():  # it may start a process
            return pool.submit(function, *given)

    try:
        yield submit
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        workers = list((pool._processes or {}).values())  # none can be asked for afterwards
        try:
            pool.shutdown(cancel_futures=True)
        except KeyboardInterrupt:
            for process in workers:
                process.kill()
            raise


def _begin_worker(begin: Callable[..., None] | None, arguments: tuple[object, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*arguments)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os._exit(1)  # nobody is left to receive results; what is on the disk stays


def map_in_order(
    work: Callable[[_Item], _Result], items: Sequence[_Item], processes: int
) -> Generator[_Result, None, None]:
    """work(item) for each item, in the order of the items; with one process or one item, in this very process.

    Close the iterator, or let an exception do it, and the processes end at once: `work` must not need to finish.
    """
    if min(processes, len(items)) <= 1:
        yield from map(work, items)
        return
    waiting = deque[tuple[_Item, Future[_Result]]]()
    # They never see Ctrl-C: this process does, and ends them.
    with process_pool(min(processes, len(items)), {signal.SIGINT}) as submit:
        for item in items:
            waiting.append((item, submit(work, item)))
            if len(waiting) >= _AHEAD * processes:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)


def _next(waiting: deque[tuple[_Item, Future[_Result]]]) -> _Result:
    item, future = waiting.popleft()
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise ValueError(
            f"a process was killed from outside (out of memory?), at {item} or shortly after. "
            "Nothing is lost: the same command goes on; fewer processes need less memory"
        ) from error
