"""Runs configurations, each for one or several seeds, and writes their run directories as results arrive."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scail.benchmark.configuration import Setup, config_of, data_settings, set_up
from scail.benchmark.measuring import Measured
from scail.benchmark.plan import Cell, Trajectory, trajectories_of
from scail.benchmark.workers import Job, Update, default_processes, run_jobs
from scail.config.recipes import Experiment
from scail.datasets import load_dataset
from scail.methods import METHODS
from scail.results.run_directory import Row, RunDirectory, summarise, summarise_seeds
from scail.runtime.devices import joined
from scail.runtime.ranks import ALONE, Ranks
from scail.storage.atomic import write_text
from scail.storage.remote_store import open_store

Begin = Callable[[Sequence[Job]], None]
Receive = Callable[[Update], None]
Engine = Callable[[Sequence[Job], str, Receive], None]
"""engine(jobs, store, receive): runs them all."""


@dataclass(frozen=True)
class Results:
    """What a run gave, and where it is."""

    directory: Path
    rows: list[Row]
    summary: dict[str, Any]


def run_experiment(
    experiment: Experiment,
    out: Path | None = None,
    *,
    seeds: int = 1,
    store: str | Path | None = None,
    jobs: int | None = None,
    begin: Begin = lambda jobs: None,
    receive: Receive = lambda update: None,
) -> Results:
    """Run a configuration, for `seeds` seeds from the experiment's own on, and write everything under `out`.

    With several seeds each has a directory of its own, and `out` holds the means. `jobs` is the number of processes.
    `begin` and `receive` are told what will be done and what happens.
    """
    check_counts(experiment, seeds, jobs)
    with joined(experiment) as ranks:
        setups = ranks.together(lambda: _setups(experiment, seeds))
        out = out or ranks.on_first(lambda: new_run_folder(experiment))
        assert out is not None
        if seeds == 1:
            (cell,) = [Cell(setups[0], out)]
            return run_cells([cell], store=store, jobs=jobs, begin=begin, receive=receive, ranks=ranks)[0]
        return _run_seeds(setups, out, store, jobs, begin, receive, ranks)


def follow_experiment(experiment: Experiment, *, seeds: int = 1, given_out: bool = True) -> None:
    """Take part in `run_experiment` of rank 0, as one of the other ranks: train along, and write nothing."""
    check_counts(experiment, seeds, None)
    with joined(experiment) as ranks:
        setups = ranks.together(lambda: _setups(experiment, seeds))
        if not given_out:
            ranks.on_first(lambda: None)  # rank 0 makes its folder
        if seeds > 1:
            ranks.on_first(lambda: None)  # and the one for all seeds
        ranks.on_first(lambda: None)  # and those of the configurations
        found = trajectories_of([Cell(setup, Path()) for setup in setups])
        todo = [Job(n, "", one.setup, one.line) for n, one in enumerate(found)]
        run_jobs(todo, Path(), 1, lambda update: None, ranks)


def check_counts(experiment: Experiment, seeds: int, jobs: int | None) -> None:
    """Numbers that are none are an error."""
    if seeds < 1 or (jobs is not None and jobs < 1):
        raise ValueError(f"seeds is {seeds} and jobs is {jobs}: expected 1 or more")
    if experiment.devices < 1 or experiment.nodes < 1:
        raise ValueError(f"devices is {experiment.devices} and nodes is {experiment.nodes}: expected 1 or more")
    if experiment.ranks > 1 and (jobs or 1) > 1:
        raise ValueError(f"jobs is {jobs}: with several devices they train one network at a time; leave --jobs out")


def _setups(experiment: Experiment, seeds: int) -> list[Setup]:
    dataset = load_dataset(experiment.dataset, data_settings(experiment))
    return [set_up(replace(experiment, seed=experiment.seed + i), dataset) for i in range(seeds)]


def _run_seeds(
    setups: Sequence[Setup], out: Path, store: str | Path | None, jobs: int | None, begin: Begin, receive: Receive,
    ranks: Ranks,
) -> Results:  # fmt: skip
    """Each seed in a directory of its own, and the means over them."""
    started = time.perf_counter()
    numbers = [setup.experiment.seed for setup in setups]
    cells = [Cell(setup, out / f"seed-{n}", f"seed {n}") for setup, n in zip(setups, numbers, strict=True)]
    together = RunDirectory(out)

    def start() -> str:
        place = open_store(store).place  # a place that cannot be written is an error now
        together.begin({"seeds": numbers, "configurations": "seed-*/"})
        return place

    place = ranks.on_first(start)
    try:
        each = run_cells(cells, store=place, jobs=jobs, begin=begin, receive=receive, ranks=ranks)
        summary = summarise_seeds({n: of.summary for n, of in zip(numbers, each, strict=True)})
        summary |= {"seconds": time.perf_counter() - started, "world_size": ranks.count}
        write_text(out / "summary.json", json.dumps(summary, indent=1) + "\n")
    finally:
        together.end()
    return Results(out, [row for of in each for row in of.rows], summary)


def run_cells(
    cells: Sequence[Cell],
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    begin: Begin = lambda jobs: None,
    receive: Receive = lambda update: None,
    finished: Callable[[Results], None] = lambda results: None,
    ranks: Ranks = ALONE,
    engine: Engine | None = None,
) -> list[Results]:
    """Run all trajectories of these configurations, none twice; gives the results of each configuration.

    A configuration is written out, and `finished` told, as soon as its last trajectory is done. `engine` runs them
    elsewhere than in processes on this machine.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}: expected 1 or more")
    if not cells:
        return []
    found = trajectories_of(cells)
    folders = [RunDirectory(cell.folder) for cell in cells]
    missing = Counter(i for one in found for i in one.cells)
    began, done = dict[int, float](), dict[int, Results]()

    def keep(update: Update) -> None:
        mine = found[update.job].cells
        for i in mine:
            began.setdefault(i, time.perf_counter())
        if update.measured is not None:
            for i in mine:
                _write(folders[i], update.measured if i == mine[0] else _shared(update.measured))
        receive(update)
        if update.done:
            missing.subtract(mine)
            for i in mine:
                if missing[i] == 0:
                    done[i] = _finish(cells[i].setup, folders[i], time.perf_counter() - began[i])
                    finished(done[i])
                    folders[i].end()

    todo = [Job(n, _title(one, cells), one.setup, one.line, one.keys[0]) for n, one in enumerate(found)]
    with contextlib.ExitStack() as locks:

        def start() -> str:
            place = open_store(store).place  # a place that cannot be written is an error now
            for folder, cell in zip(folders, cells, strict=True):
                folder.begin(config_of(cell.setup))
                locks.callback(folder.end)
            begin(todo)
            return place

        place = ranks.on_first(start)
        assert place is not None
        if engine is None:
            run_jobs(todo, place, jobs or processes_for(cells, len(todo)), keep, ranks)
        else:
            engine(todo, place, keep)
    return [done[i] for i in range(len(cells))]


def processes_for(cells: Sequence[Cell], jobs: int) -> int:
    """As many processes as the configuration with the most threads allows."""
    return min(default_processes(cell.setup.experiment, jobs) for cell in cells)


def _write(folder: RunDirectory, measured: Measured) -> None:
    """What one state of a trajectory gave, into a run directory."""
    folder.add(measured.rows, measured.weights, measured.confusion)
    if measured.memory is not None:
        folder.add_memory(measured.memory, measured.sheet)
    if measured.timing is not None:
        folder.add_timing(measured.timing)


def _shared(measured: Measured) -> Measured:
    """The same state in another configuration: it was trained once, and this one did not wait for it."""
    rows = [replace(row, trained_epochs=0) for row in measured.rows]
    timing = measured.timing and {**measured.timing, "trained_epochs": 0, "seconds": 0.0, "evaluation": 0.0}
    return replace(measured, rows=rows, timing=timing)


def _title(one: Trajectory, cells: Sequence[Cell]) -> str:
    first, more = cells[one.cells[0]].title, len(one.cells) - 1
    return f"{first}{f' and {more} more' if more else ''}: {one.line.title}" if first else one.line.title


def new_run_folder(experiment: Experiment) -> Path:
    """Where a run goes for which no place was given."""
    return _new_folder(Path("runs"), f"{time.strftime('%Y%m%d-%H%M%S')}-{Path(experiment.dataset).stem}")


def _new_folder(place: Path, name: str) -> Path:
    """A folder that no other run has, even one that was started in the same second."""
    for n in itertools.count(1):
        folder = place / (name if n == 1 else f"{name}-{n}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError


def _finish(setup: Setup, folder: RunDirectory, seconds: float) -> Results:
    """Write the summary, from what is in the directory."""
    pairs = [(method, line.select) for line in setup.lines for method in line.methods]
    folder.sort(sorted(pairs, key=lambda pair: list(METHODS).index(pair[0])))
    rows = folder.rows()
    summary = summarise(rows) | {"seconds": seconds, "world_size": setup.experiment.ranks}
    write_text(folder.path / "summary.json", json.dumps(summary, indent=1) + "\n")
    return Results(folder.path, rows, summary)
