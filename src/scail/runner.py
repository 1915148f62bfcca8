"""Runs experiments: their trajectories in one or several processes, their results into a run directory.

On a CPU each trajectory trains with `threads` threads whatever the number of processes, so that this number never
changes a result: two processes of one thread do more than one process of two.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for_end
from pathlib import Path
from queue import Empty
from typing import Any

from scail.exemplars import places
from scail.experiment import Line, Measured, Setup, chain_of, config_of, run_line, set_up
from scail.recipes import Experiment
from scail.results import Row, RunDirectory, summarise, summarise_seeds, write_text
from scail.store import Store, default_store_dir
from scail.stream import State
from scail.training import Interrupted, Progress
from scail.trajectory import Chain, Watch


@dataclass(frozen=True)
class Job:
    """One trajectory of one experiment."""

    number: int
    title: str
    setup: Setup
    line: Line

    def image_passes(self) -> list[int]:
        """For each state, images times epochs: how much work it is to train it."""
        chain = chain_of(self.setup, self.line)
        return [len(s.train_indices) * chain.trainer.epochs(s.index) + _rehearsed(chain, s) for s in chain.states]


def _rehearsed(chain: Chain, state: State) -> int:
    if state.index == 0 or not chain.memory:
        return 0
    each = [len(s.train_indices) // len(s.class_names) for s in chain.states[: state.index] for _ in s.class_names]
    kept = sum(map(min, places(chain.memory, state.past_classes), each))
    return kept * chain.trainer.epochs(state.index)


@dataclass(frozen=True)
class Update:
    """News from a job: a note on a state, images done, or what a finished state gave."""

    job: int
    state: int
    note: str | None = None
    progress: Progress | None = None
    measured: Measured | None = None


@dataclass(frozen=True)
class Results:
    """What a run gave, and where it is."""

    directory: Path
    rows: list[Row]
    summary: dict[str, Any]


def run_experiment(
    experiment: Experiment,
    out: Path,
    *,
    seeds: int = 1,
    store: Path | None = None,
    jobs: int | None = None,
    begin: Callable[[Sequence[Job]], None] = lambda jobs: None,
    receive: Callable[[Update], None] = lambda update: None,
) -> Results:
    """Run a configuration, for `seeds` seeds from the experiment's own on, and write everything under `out`.

    With several seeds each has a directory of its own, and `out` holds the means. `begin` and `receive` are told what
    will be done and what happens.
    """
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}, expected 1 or more")
    started = time.perf_counter()
    setups = [set_up(replace(experiment, seed=experiment.seed + i)) for i in range(seeds)]
    place = Path(store or default_store_dir())
    Store(place)  # a place that cannot be written is an error now
    folders = [RunDirectory(out if seeds == 1 else out / f"seed-{setup.experiment.seed}") for setup in setups]
    if seeds > 1:
        RunDirectory(out).begin({"experiment": "see seed-*/config.json", "seeds": [s.experiment.seed for s in setups]})
    for folder, setup in zip(folders, setups, strict=True):
        folder.begin(config_of(setup))
    todo = [
        Job(n, line.title if seeds == 1 else f"seed {setup.experiment.seed}: {line.title}", setup, line)
        for n, (setup, line) in enumerate((setup, line) for setup in setups for line in setup.lines)
    ]
    folder_of = {job.number: folders[setups.index(job.setup)] for job in todo}
    confusion: dict[tuple[int, str], dict[str, Any]] = {}

    def keep(update: Update) -> None:
        if (measured := update.measured) is not None:
            folder, line = folder_of[update.job], todo[update.job].line
            folder.add_rows(measured.rows)
            if measured.weights:
                folder.add_weights(measured.weights)
            for method, matrix in measured.confusion.items():
                mine = confusion.setdefault((update.job, method), {})
                mine[f"state_{update.state}"] = matrix
                folder.add_confusion(method, line.select, mine)
        receive(update)

    begin(todo)
    run_jobs(todo, place, jobs or default_jobs(experiment, len(todo)), keep)
    seconds = time.perf_counter() - started
    return _finish(out, [s.experiment.seed for s in setups], folders, seconds)


def default_jobs(experiment: Experiment, count: int) -> int:
    """As many processes as there are cores for their threads; one where an accelerator does the work."""
    import torch

    if experiment.accelerator != "cpu" and torch.accelerator.is_available():
        return 1
    return max(1, min(count, len(os.sched_getaffinity(0)) // experiment.threads))


def _finish(out: Path, seeds: list[int], folders: list[RunDirectory], seconds: float) -> Results:
    """Write the summaries, from what is in the directories."""
    summaries, everything = {}, []
    for seed, folder in zip(seeds, folders, strict=True):
        rows = folder.rows()
        everything += rows
        epochs = {(r.select, r.method == "full", r.state): r.trained_epochs for r in rows}
        summary = summarise(rows) | {"trained_epochs": sum(epochs.values()), "seconds": seconds, "world_size": 1}
        write_text(folder.path / "summary.json", json.dumps(summary, indent=1) + "\n")
        summaries[seed] = summary
    if len(seeds) > 1:
        trained = sum(summary["trained_epochs"] for summary in summaries.values())
        summary = summarise_seeds(summaries) | {"trained_epochs": trained, "seconds": seconds, "world_size": 1}
        write_text(out / "summary.json", json.dumps(summary, indent=1) + "\n")
    return Results(out, everything, summary)


# --- processes -------------------------------------------------------------------------------------------------------

_stop = threading.Event()
_queue: Any = None


def run_jobs(todo: Sequence[Job], store: Path, processes: int, receive: Callable[[Update], None]) -> None:
    """Run all jobs, so many at a time. Ctrl-C and SIGTERM end them after the current batch, saved."""
    _stop.clear()
    with _stop_on_signals():
        if processes == 1 or len(todo) == 1:
            for job in todo:
                _work(job, store, receive)
        else:
            _run_in_processes(todo, store, processes, receive)


def _work(job: Job, store: Path, receive: Callable[[Update], None]) -> None:
    n = job.number
    watch = Watch(
        note=lambda state, text: receive(Update(n, state.index, note=text)),
        progress=lambda state, progress: receive(Update(n, state.index, progress=progress)),
        stop_asked=_stop.is_set,
    )
    if _stop.is_set():
        raise Interrupted
    run_line(
        job.setup, job.line, Store(store), watch,
        lambda measured: receive(Update(n, measured.rows[0].state, measured=measured)),
    )  # fmt: skip


def _run_in_processes(todo: Sequence[Job], store: Path, processes: int, receive: Callable[[Update], None]) -> None:
    context = get_context("spawn")  # not fork: torch's threads do not survive it
    queue = context.Queue()
    pool = ProcessPoolExecutor(processes, context, _begin_worker, (queue,))
    try:
        futures: set[Future[None]] = {
            pool.submit(_work_in_process, job.number, job.title, job.setup.experiment, job.line, store) for job in todo
        }
        while futures:
            done, futures = wait(futures, timeout=0.1, return_when=FIRST_COMPLETED)
            with contextlib.suppress(Empty):
                while True:
                    receive(queue.get(timeout=0.05))
            for future in done:
                future.result()  # raises what the worker raised
    except BaseException:
        _stop.set()
        for process in list(pool._processes.values()):
            process.terminate()  # SIGTERM: the others save what they have and end
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_worker(queue: Any) -> None:
    global _queue
    _queue = queue
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _stop.set())
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os._exit(1)  # nobody is left to receive results; what is in the store stays


def _work_in_process(number: int, title: str, experiment: Experiment, line: Line, store: Path) -> None:
    """A job in a worker process: the data are read again (from the cache), progress is sent ten times a second."""
    pending, last = 0, 0.0

    def send(update: Update) -> None:
        nonlocal pending, last
        if update.progress is not None and update.progress.loss is None:
            pending += update.progress.images
            if time.monotonic() - last < 0.1:
                return
            update = replace(update, progress=replace(update.progress, images=pending))
        elif update.progress is not None:
            update = replace(update, progress=replace(update.progress, images=pending))
        pending, last = 0 if update.progress else pending, time.monotonic()
        _queue.put(update)

    _work(Job(number, title, set_up(experiment), line), store, send)


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the trainings to stop; a second Ctrl-C ends the program at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(*_: object) -> None:
        _stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
