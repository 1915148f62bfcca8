"""Runs a configuration, for one or several seeds, and writes its run directory as results arrive."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scail.experiment import Setup, config_of, set_up
from scail.methods import METHODS
from scail.processes import Job, Update, default_processes, run_jobs
from scail.recipes import Experiment
from scail.results import Row, RunDirectory, summarise, summarise_seeds, write_text
from scail.store import Store, default_store_dir


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
    store: Path | None = None,
    jobs: int | None = None,
    begin: Callable[[Sequence[Job]], None] = lambda jobs: None,
    receive: Callable[[Update], None] = lambda update: None,
) -> Results:
    """Run a configuration, for `seeds` seeds from the experiment's own on, and write everything under `out`.

    With several seeds each has a directory of its own, and `out` holds the means. `jobs` is the number of processes.
    `begin` and `receive` are told what will be done and what happens.
    """
    if seeds < 1 or (jobs is not None and jobs < 1):
        raise ValueError(f"seeds is {seeds} and jobs is {jobs}: expected 1 or more")
    started = time.perf_counter()
    out = out or _new_folder(Path("runs"), f"{time.strftime('%Y%m%d-%H%M%S')}-{Path(experiment.dataset).stem}")
    setups = [set_up(replace(experiment, seed=experiment.seed + i)) for i in range(seeds)]
    place = Store(store or default_store_dir()).root  # a place that cannot be written is an error now
    together = RunDirectory(out)
    if seeds > 1:
        together.begin({"seeds": [setup.experiment.seed for setup in setups], "configurations": "seed-*/"})
    folders = [RunDirectory(out if seeds == 1 else out / f"seed-{s.experiment.seed}") for s in setups]
    todo, folder_of = list[Job](), list[RunDirectory]()
    for folder, setup in zip(folders, setups, strict=True):
        folder.begin(config_of(setup))
        for line in setup.lines:
            title = line.title if seeds == 1 else f"seed {setup.experiment.seed}: {line.title}"
            todo.append(Job(len(todo), title, setup, line))
            folder_of.append(folder)

    def keep(update: Update) -> None:
        if (measured := update.measured) is not None:
            folder_of[update.job].add(measured.rows, measured.weights, measured.confusion)
        receive(update)

    begin(todo)
    run_jobs(todo, place, jobs or default_processes(experiment, len(todo)), keep)
    results = _finish(out, setups, folders, time.perf_counter() - started)
    for folder in (together, *folders):
        folder.end()
    return results


def _new_folder(place: Path, name: str) -> Path:
    """A folder that no other run has, even one that was started in the same second."""
    for n in itertools.count(1):
        folder = place / (name if n == 1 else f"{name}-{n}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError


def _finish(out: Path, setups: Sequence[Setup], folders: Sequence[RunDirectory], seconds: float) -> Results:
    """Write the summaries, from what is in the directories."""
    summaries, everything = dict[int, dict[str, Any]](), list[Row]()
    for setup, folder in zip(setups, folders, strict=True):
        pairs = [(method, line.select) for line in setup.lines for method in line.methods]
        folder.sort(sorted(pairs, key=lambda pair: list(METHODS).index(pair[0])))
        rows = folder.rows()
        summaries[setup.experiment.seed] = summarise(rows) | {"seconds": seconds, "world_size": 1}
        write_text(folder.path / "summary.json", json.dumps(summaries[setup.experiment.seed], indent=1) + "\n")
        everything += rows
    summary, *_ = summaries.values()
    if len(summaries) > 1:
        summary = summarise_seeds(summaries) | {"seconds": seconds, "world_size": 1}
        write_text(out / "summary.json", json.dumps(summary, indent=1) + "\n")
    return Results(out, everything, summary)
