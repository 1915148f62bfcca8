"""Runs trajectories, in this process or in several.

On a CPU each trajectory trains with `threads` threads whatever the number of processes, so that this number never
changes a result: two processes of one thread do more than one process of two.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from queue import Empty
from typing import Any

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch
from scail.benchmark.measured import Measured, measured_states
from scail.benchmark.trajectory import Reading, Trajectory
from scail.config import Experiment, Machine
from scail.datasets import load_dataset
from scail.runtime.cores import available_cores
from scail.runtime.pool import SPAWN, STOPPING, process_pool
from scail.runtime.ranks import ALONE, Ranks
from scail.storage.remote_store import open_store
from scail.training import Interrupted, Progress


@dataclass(frozen=True)
class Update:
    """News from a trajectory: a note on a state, images done, what a finished state gave, or that all is done."""

    trajectory: int
    """Its place among those that are run."""
    state: int = 0
    note: str | None = None
    progress: Progress | None = None
    measured: Measured | None = None
    done: bool = False


Receive = Callable[[Update], None]
_stop = threading.Event()
_queue: Any = None
_load_once = lru_cache(maxsize=4)(load_dataset)  # in a worker process, for its trajectories on the same data


def default_processes(machine: Machine, trajectories: int) -> int:
    """As many processes as there are cores for their threads; one where an accelerator does the work."""
    import torch

    if machine.ranks > 1 or (machine.accelerator != "cpu" and torch.accelerator.is_available()):
        return 1
    return max(1, min(trajectories, available_cores() // machine.threads))


def stop_asked() -> bool:
    """Whether Ctrl-C or SIGTERM came."""
    return _stop.is_set()


def run_trajectories(
    trajectories: Sequence[Trajectory], store: str | Path, processes: int, receive: Receive, ranks: Ranks = ALONE
) -> None:
    """Run all, so many at a time. Ctrl-C and SIGTERM end them after the current batch, saved: `Interrupted`.

    Several ranks run one at a time, together.
    """
    with stop_on_signals():
        if min(processes, len(trajectories)) == 1 or ranks.count > 1:
            for number, trajectory in enumerate(trajectories):
                _work(number, trajectory, store, receive, ranks)
        else:
            _run_in_processes(trajectories, store, min(processes, len(trajectories)), receive)


def _work(number: int, trajectory: Trajectory, store: str | Path, receive: Receive, ranks: Ranks = ALONE) -> None:
    if ranks.any(_stop.is_set()):
        raise Interrupted
    watch = Watch(
        note=lambda state, text: receive(Update(number, state.index, note=text)),
        progress=lambda state, progress: receive(Update(number, state.index, progress=progress)),
        stop_asked=_stop.is_set,
    )
    with trajectory.table.told():
        for measured in measured_states(trajectory, open_store(store, create=ranks.rank == 0), watch, ranks):
            receive(Update(number, measured.state, measured=measured))
    receive(Update(number, done=True))


def _run_in_processes(trajectories: Sequence[Trajectory], store: str | Path, processes: int, receive: Receive) -> None:
    queue = SPAWN.Queue()
    with process_pool(processes, STOPPING, _begin_worker, (queue,)) as submit:
        try:
            futures = [
                submit(_work_in_process, number, one.configuration.experiment, one.reading, store)
                for number, one in enumerate(trajectories)
            ]
            _listen(queue, futures, receive)
        except BrokenProcessPool as error:
            raise ValueError(
                "a training process was killed from outside (out of memory?). "
                "Nothing is lost: the same command goes on; --jobs 1 needs less memory"
            ) from error


def _listen(queue: Any, futures: Sequence[Future[None]], receive: Receive) -> None:
    """Pass on what the workers send, until each has said that it is done."""
    unfinished, looked = len(futures), 0.0
    while unfinished:
        if _stop.is_set():
            raise Interrupted
        if time.monotonic() - looked > 0.5:
            looked = time.monotonic()
            for future in futures:
                if future.done():
                    future.result()  # raises what the worker raised
        with contextlib.suppress(Empty):
            update: Update = queue.get(timeout=0.2)
            receive(update)
            unfinished -= update.done


def _begin_worker(queue: Any) -> None:
    """Asked to stop, a worker saves what it has, and ends."""
    global _queue
    _queue = queue
    for number in STOPPING:
        signal.signal(number, lambda *_: _stop.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def _work_in_process(number: int, experiment: Experiment, reading: Reading, store: str | Path) -> None:
    try:
        work_and_send(number, experiment, reading, store, _queue.put)
    except BaseException:
        _queue.cancel_join_thread()  # nobody may be listening any more: do not wait for that
        raise


def work_and_send(number: int, experiment: Experiment, reading: Reading, store: str | Path, put: Receive) -> None:
    """A trajectory in a worker process: the data are read there, and progress is sent ten times a second."""
    unsent, last = 0, 0.0

    def send(update: Update) -> None:
        nonlocal unsent, last
        if update.progress is not None:
            unsent += update.progress.images
            if update.progress.loss is None and time.monotonic() - last < 0.1:
                return
            update = replace(update, progress=replace(update.progress, images=unsent))
            unsent, last = 0, time.monotonic()
        put(update)

    configuration = settle(experiment, _load_once(experiment.dataset, experiment.data))
    _work(number, Trajectory(configuration, *reading), store, send)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the trainings to stop; a second Ctrl-C ends the program at once."""
    _stop.clear()
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return

    def ask(*_: object) -> None:
        _stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
