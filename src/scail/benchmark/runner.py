"""Runs configurations, each for one or several seeds, and writes their run directories as results arrive.

The same code runs on every rank: rank 0 writes and is told what happens, and all of them get the results.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scail.benchmark.configuration import Configuration, commit_of_package, provenance_of, settle
from scail.benchmark.measured import Measured
from scail.benchmark.plan import trajectories_of
from scail.benchmark.point import check_count
from scail.benchmark.trajectory import Trajectory, trajectories_in
from scail.benchmark.workers import Update, default_processes, run_trajectories
from scail.config import Experiment
from scail.datasets import load_dataset
from scail.methods.table import settled_own
from scail.networks.precision import used_precision
from scail.results.results import Results
from scail.results.row import Row
from scail.results.run_directory import RunDirectory
from scail.results.summary import summarise, summarise_seeds
from scail.runtime.devices import joined
from scail.runtime.ranks import ALONE, Ranks
from scail.storage.atomic import write_text
from scail.storage.flushing import flush, make_folder
from scail.storage.remote_store import open_store

Begin = Callable[[Sequence[Trajectory]], None]
Receive = Callable[[Update], None]
Engine = Callable[[Sequence[Trajectory], str, Receive], None]
"""engine(trajectories, store, receive): runs them all."""


def run_experiment(
    experiment: Experiment,
    out: str | Path | None = None,
    *,
    seeds: int = 1,
    store: str | Path | None = None,
    jobs: int | None = None,
    begin: Begin = lambda trajectories: None,
    receive: Receive = lambda update: None,
) -> Results:
    """Run a configuration, for `seeds` seeds from the experiment's own on, and write the results under `out`.

    `scail.write_report(results)` makes page, tables and figures of them, as `scail run` does. With several seeds each
    has a directory of its own, and `out` holds the means. `jobs` is the number of processes. `begin` and
    `receive` are told what will be done and what happens, on rank 0.
    """
    check_counts(experiment, seeds, jobs)
    place, machine = None if out is None else Path(out), experiment.machine
    experiment = experiment.but(precision=used_precision(machine.precision, machine.accelerator))
    with joined(experiment.machine) as ranks:
        configurations = ranks.together(lambda: _configurations(experiment, seeds))
        folder = ranks.decided(lambda: place or new_run_folder(experiment))
        if seeds == 1:
            alone = [replace(configurations[0], folder=folder)]
            return run_configurations(alone, store=store, jobs=jobs, begin=begin, receive=receive, ranks=ranks)[0]
        return _run_seeds(configurations, folder, store, jobs, begin, receive, ranks)


def check_counts(experiment: Experiment, seeds: int, jobs: int | None) -> None:
    """Numbers that are none are an error."""
    machine = experiment.machine
    if seeds < 1 or (jobs is not None and jobs < 1):
        raise ValueError(f"seeds is {seeds} and jobs is {jobs}: expected 1 or more")
    check_count("seeds", seeds)
    if machine.devices < 1 or machine.nodes < 1:
        raise ValueError(f"devices is {machine.devices} and nodes is {machine.nodes}: expected 1 or more")
    if machine.ranks > 1 and (jobs or 1) > 1:
        raise ValueError(f"jobs is {jobs}: with several devices they train one network at a time; leave --jobs out")


def _configurations(experiment: Experiment, seeds: int) -> list[Configuration]:
    experiment = settled_own(experiment)  # a mistake there is told before the data are read
    dataset = load_dataset(experiment.dataset, experiment.data)
    return [settle(replace(experiment, seed=experiment.seed + i), dataset) for i in range(seeds)]


def _run_seeds(
    configurations: Sequence[Configuration], out: Path, store: str | Path | None, jobs: int | None, begin: Begin,
    receive: Receive, ranks: Ranks,
) -> Results:  # fmt: skip
    """Each seed in a directory of its own, and the means over them."""
    started = time.perf_counter()
    numbers = [one.experiment.seed for one in configurations]
    each_alone = [
        replace(one, folder=out / f"seed-{n}", title=f"seed {n}")
        for one, n in zip(configurations, numbers, strict=True)
    ]
    together = RunDirectory(out)

    def start() -> str:
        place = open_store(store).place  # a place that cannot be written is an error now
        together.begin({"seeds": numbers, "configurations": "seed-*/"})
        return place

    place = ranks.decided(start)
    try:
        each = run_configurations(each_alone, store=place, jobs=jobs, begin=begin, receive=receive, ranks=ranks)
        summary = summarise_seeds({n: of.summary for n, of in zip(numbers, each, strict=True)})
        summary |= {"seconds": time.perf_counter() - started, "world_size": ranks.count}
        ranks.on_first(write_text, out / "summary.json", json.dumps(summary, indent=1) + "\n")
    finally:
        together.end()
    return Results(out, [row for of in each for row in of.rows], summary)


def run_configurations(
    configurations: Sequence[Configuration],
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    begin: Begin = lambda trajectories: None,
    receive: Receive = lambda update: None,
    finished: Callable[[Results], None] = lambda results: None,
    ranks: Ranks = ALONE,
    engine: Engine | None = None,
) -> list[Results]:
    """Run all trajectories of these configurations, none twice; gives the results of each configuration.

    A configuration is written to its folder, and `finished` told, as soon as its last trajectory is done. `engine` runs
    them elsewhere than in processes on this machine.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}: expected 1 or more")
    if not configurations:
        return []
    trajectories = trajectories_of(configurations)
    book = _Book(configurations, trajectories, receive, finished)
    with contextlib.ExitStack() as locks:

        def start() -> str:
            place = open_store(store).place  # a place that cannot be written is an error now
            book.begin(locks)
            begin(trajectories)
            return place

        place = ranks.decided(start)
        keep = book.receive if ranks.rank == 0 else lambda update: None
        if engine is None:
            run_trajectories(trajectories, place, jobs or processes_for(configurations, len(trajectories)), keep, ranks)
        else:
            engine(trajectories, place, keep)
    return ranks.decided(lambda: [book.done[i] for i in range(len(configurations))])


class _Book:
    """Writes what arrives into the folders of the configurations that read it."""

    def __init__(
        self, configurations: Sequence[Configuration], trajectories: Sequence[Trajectory], receive: Receive,
        finished: Callable[[Results], None],
    ) -> None:  # fmt: skip
        self.configurations, self.trajectories = configurations, trajectories
        self.tell, self.finished = receive, finished
        self.missing = Counter(i for one in trajectories for i in one.readers)
        self.folders = list[RunDirectory]()
        self.began, self.done = dict[int, float](), dict[int, Results]()

    def begin(self, locks: contextlib.ExitStack) -> None:
        """Claim every folder, until `locks` is closed or the configuration is done."""
        for one in self.configurations:
            assert one.folder is not None
            self.folders.append(RunDirectory(one.folder))
            self.folders[-1].begin(config_of(one))
            locks.callback(self.folders[-1].end)

    def receive(self, update: Update) -> None:
        """Write it down, tell others, and finish what is complete."""
        readers = self.trajectories[update.trajectory].readers
        for i in readers:
            self.began.setdefault(i, time.perf_counter())
        if update.measured is not None:
            for i in readers:
                measured = update.measured if i == readers[0] else _shared(update.measured)
                _write(self.folders[i], _by_states_of(self.configurations[i], measured))
        self.tell(update)
        if update.done:
            self.missing.subtract(readers)
            for i in readers:
                if self.missing[i] == 0:
                    self._finish(i)

    def _finish(self, i: int) -> None:
        seconds = time.perf_counter() - self.began[i]
        self.done[i] = _summarised(self.configurations[i], self.folders[i], seconds)
        self.finished(self.done[i])
        self.folders[i].end()


def config_of(configuration: Configuration) -> dict[str, Any]:
    """The whole configuration, as it is written to `config.json`."""
    dataset, states, experiment = configuration.dataset, configuration.states, configuration.experiment
    return {
        "experiment": experiment.record(),
        "memory": configuration.memory,
        **({} if configuration.per_class is None else {"memory_per_class": configuration.per_class}),
        "class_order": [name for state in states for name in state.class_names],
        "state_sizes": [len(state.class_names) for state in states],
        "dataset": {
            "name": dataset.name, "fingerprint": dataset.fingerprint, "shape": dataset.shape,
            "train_images": len(dataset.train), "test_images": len(dataset.test), "split": dataset.split,
            "on_disk": dataset.on_disk, "notes": dataset.notes,
        },
        "network": configuration.network,
        **({"own": own} if (own := configuration.table.contents) else {}),
        "lines": [one.record() for one in trajectories_in(configuration)],
        "provenance": provenance_of(configuration, "cpu" if experiment.machine.accelerator == "cpu" else "auto"),
        "command": sys.argv,
        "commit": commit_of_package(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip


def processes_for(configurations: Sequence[Configuration], trajectories: int) -> int:
    """As many processes as the configuration with the most threads allows."""
    return min(default_processes(one.experiment.machine, trajectories) for one in configurations)


def _write(folder: RunDirectory, measured: Measured) -> None:
    """What one state of a trajectory gave, into a run directory."""
    folder.add(measured.rows, measured.weights, measured.confusion)
    if measured.memory is not None:
        folder.add_memory(measured.memory, measured.sheet, measured.generated)
    if measured.timing is not None:
        folder.add_timing(measured.timing)


def _by_states_of(configuration: Configuration, measured: Measured) -> Measured:
    """Full, which knows of no states, with its test images counted by the states of this configuration."""
    starts = [state.past_classes for state in configuration.states]

    def counted(row: Row) -> Row:
        if not configuration.table.trainers[row.trainer].at_once:
            return row
        matrix = measured.confusion[row.method]
        right, images = (np.add.reduceat(of, starts).tolist() for of in (matrix.diagonal(), matrix.sum(1)))
        return replace(row, correct_by_state=right, images_by_state=images)

    return replace(measured, rows=[counted(row) for row in measured.rows])


def _shared(measured: Measured) -> Measured:
    """The same state in another configuration: it was trained once, and this one did not wait for it."""
    rows = [replace(row, trained_epochs=0) for row in measured.rows]
    timing = measured.timing and {**measured.timing, "trained_epochs": 0, "seconds": 0.0, "evaluation": 0.0}
    return replace(measured, rows=rows, timing=timing)


def new_run_folder(experiment: Experiment) -> Path:
    """Where a run goes for which no place was given."""
    return _new_folder(Path("runs"), f"{time.strftime('%Y%m%d-%H%M%S')}-{Path(experiment.dataset).stem}")


def _new_folder(place: Path, name: str) -> Path:
    """A folder that no other run has, even one that was started in the same second."""
    make_folder(place)
    for n in itertools.count(1):
        folder = place / (name if n == 1 else f"{name}-{n}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            flush(place)
            return folder
    raise AssertionError


def _summarised(configuration: Configuration, folder: RunDirectory, seconds: float) -> Results:
    """Write the summary, from what is in the directory."""
    known = list(configuration.table.methods)
    pairs = [(method, one.select) for one in trajectories_in(configuration) for method in one.methods]
    folder.sort(sorted(pairs, key=lambda pair: known.index(pair[0])))
    rows = folder.rows()
    summary = summarise(rows, folder.timing()) | {
        "seconds": seconds,
        "world_size": configuration.experiment.machine.ranks,
    }
    write_text(folder.path / "summary.json", json.dumps(summary, indent=1) + "\n")
    return Results(folder.path, rows, summary)
