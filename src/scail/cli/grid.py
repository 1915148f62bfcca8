"""`scail grid`: many configurations at once, planned before they start."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from scail.config.options import CommandOptions, TrainingOptions
from scail.runtime.launch import started_ranks
from scail.storage.cache import keep_images

if TYPE_CHECKING:
    from rich.console import Console

    from scail.benchmark.configuration import Configuration
    from scail.benchmark.finished import Finished
    from scail.benchmark.grid import Grid
    from scail.benchmark.point import Point
    from scail.benchmark.runner import Engine
    from scail.results.archive import Archive
    from scail.results.results import Results


@dataclass(frozen=True, kw_only=True)
class _Which:
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME|FILE")]
    """A grid of the paper, or a YAML file."""
    datasets: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Data sets, names or paths, separated by commas. Default: the grid's own."""


@dataclass(frozen=True, kw_only=True)
class GridCommand(CommandOptions, TrainingOptions, _Which):
    """Run all configurations of a table or figure of the paper, or of a file of your own.

    First comes a plan: how many trainings there are, how many are saved because configurations and methods share them,
    and how long they take here. Then each way of training goes once through all states (a trajectory), and all its
    methods are read from it. Each configuration has a folder of results below --out. After Ctrl-C or a crash the same
    command goes on. `scail paper DIR` compares the results with the published ones.

    NAME is table1 (all methods, five configurations of Z and B), table2 (errors on ILSVRC), supp-errors (errors on all
    data sets), supp-nomem (no memory), supp-distill (fifty states) or figures.

    FILE is YAML with options of `scail run`. A list stands for each of its values. These lines make twelve
    configurations, and options given here replace those of the file:

      dataset: cifar100
      methods: [ft, scail]    # both, in every configuration
      states: [10, 20]
      memory: [2%, 1%]
      seed: [1, 2, 3]

    A list of lists, as methods: [[ft, scail], [icarl]], is a configuration for each.

    Try one of these; the first needs no data:

      scail grid table1 --recipe paper --plan
      scail grid table1 --datasets cifar100 --methods ft,scail,full --jobs 2
    """

    engine: Literal["local", "ray"] = "local"
    """local: trainings run in processes here. ray: on a Ray cluster (pip install 'scail[ray]').
    The results are the same."""
    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """ray: the cluster, or auto for that of this machine. Default: one is started here for this grid."""
    gpus_per_training: Annotated[float, tyro.conf.arg(metavar="N")] = 0
    """ray: how many GPUs each training has."""
    results: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Keep the measured numbers in this folder, in small files. What is there already is not run again."""
    plan: bool = False
    """Print the plan, and end."""

    def __call__(self) -> None:
        """Plan, run what is not finished, and print the table."""
        keep_images(not self.no_image_cache)
        _run_grid(self)


def _run_grid(grid: GridCommand) -> None:

    from scail.benchmark.finished import Finished
    from scail.benchmark.grid import is_finished, settle_grid
    from scail.benchmark.loggers import check_logger, logging_to
    from scail.benchmark.runner import config_of, run_configurations
    from scail.benchmark.trajectory import trajectories_in
    from scail.cli.display import Display
    from scail.cli.terminal import Terminal
    from scail.results.archive import Archive

    if grid.logger:
        check_logger(grid.logger)
    console, out = Terminal(), grid.out or Path("runs") / _default_name(grid)
    if (grid.jobs is not None and grid.jobs < 1) or (grid.seeds is not None and grid.seeds < 1):
        raise ValueError(f"seeds is {grid.seeds} and jobs is {grid.jobs}: expected 1 or more")
    if started_ranks() is not None:
        raise ValueError("scail grid trains each network on one device: start it without torchrun, or use --engine ray")
    engine = _engine(grid, console)
    archive = Archive(grid.results) if grid.results else None
    settled = settle_grid(_points(grid), out, archive)
    configurations = settled.configurations
    finished = {i for i, one in enumerate(configurations) if is_finished(one)}
    known = Finished.in_store(grid.store)
    _print_plan(grid, settled, finished, known, console)
    if grid.plan:
        return
    if settled.missing:
        reasons = "; ".join(settled.missing.values())
        raise ValueError(f"data not here: {', '.join(settled.missing)}. {reasons}. Or choose others with --datasets")
    todo = [one for i, one in enumerate(configurations) if i not in finished]
    with _grid_folder(out, settled, grid.name):
        for one in (configurations[i] for i in sorted(finished)):
            if one.folder is not None and trajectories_in(one):
                _keep(archive, one.folder)
        keep = partial(_write_results, archive, not grid.no_thumbnails)
        with logging_to(grid.logger, out / "logs", Display(console, known)) as (begin, receive):
            run_configurations(
                todo, store=grid.store, jobs=grid.jobs, begin=begin, receive=receive, finished=keep, engine=engine
            )
        if archive is not None:
            for one in configurations:  # what was not run may still have Full from others
                archive.add(config_of(one), (), 0.0)
        _print_tables(out, todo, archive, console, not grid.no_thumbnails)


def _engine(grid: GridCommand, console: Console) -> Engine | None:
    """Where the trainings run; None: in processes here."""
    if grid.engine == "local":
        if grid.address is not None or grid.gpus_per_training:
            raise ValueError("--address and --gpus-per-training are for --engine ray")
        return None
    from scail.benchmark.cluster import Cluster, run_on_cluster

    cluster = Cluster(grid.address, grid.gpus_per_training, grid.jobs)

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    return lambda trajectories, store, receive: run_on_cluster(trajectories, store, receive, cluster, say)


def _default_name(grid: GridCommand) -> str:
    """Recipes do not overwrite each other's results."""
    return Path(grid.name).stem if _is_file(grid.name) else f"{grid.name}-{grid.recipe or 'quick'}"


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or Path(name).is_file()


def _points(grid: GridCommand) -> list[Point]:
    from scail.benchmark.grid_file import file_grid
    from scail.benchmark.paper_grids import named_grid

    options = {field.name: getattr(grid, field.name) for field in fields(TrainingOptions)}
    options = {name: value for name, value in options.items() if value is not None}
    datasets = _parts(grid.datasets)
    if _is_file(grid.name):
        return file_grid(Path(grid.name), options | ({"dataset": datasets} if datasets else {}))
    methods, select = _parts(options.pop("methods", "")), options.pop("select", None)
    first = options.pop("seed", 1)
    seeds = range(first, first + options.pop("seeds", 1))
    return named_grid(grid.name, datasets, methods, select, seeds, options)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _print_plan(grid: GridCommand, settled: Grid, finished: set[int], known: Finished, console: Console) -> None:
    from scail.benchmark.plan import Count, plan_of
    from scail.benchmark.plan_text import assumptions, plan_table
    from scail.benchmark.prices import prices_of
    from scail.benchmark.runner import processes_for
    from scail.storage.remote_store import keys_in

    counts = plan_of(settled.configurations, keys_in(grid.store), finished, prices_of, known.share)
    total = sum(counts.values(), Count())
    processes = grid.jobs or processes_for(settled.configurations, total.trajectories)
    console.print(plan_table(counts, total, processes, settled.missing))
    precisions = dict.fromkeys(one.experiment.machine.precision for one in settled.configurations)
    said = [*assumptions(total, processes, settled.missing), f"Precision: {', '.join(precisions)}."]
    for text in (*said, *(f"note: {n}" for n in settled.notes)):
        console.print(text, soft_wrap=True)
    for i in sorted(finished):
        title = settled.configurations[i].title
        console.print(f"{title}: finished before, not run again", soft_wrap=True)


@contextmanager
def _grid_folder(out: Path, settled: Grid, name: str) -> Iterator[None]:
    """The grid's folder, held by one run at a time, with grid.json in it."""
    from scail.benchmark.grid import grid_record
    from scail.results.marks import GRID, GRID_MARK, is_begun, is_grid, marked
    from scail.storage.atomic import sweep, write_text
    from scail.storage.lock import LOCK, claim, locked

    mark = {GRID} if is_grid(out) else set()
    foreign = "holds files that are not a scail grid; give a new directory"
    claim(out, f"--out {out}", mark, foreign, own=partial(is_begun, out))
    taken = ValueError(f"--out {out}: another grid is writing there; wait, or give another directory")
    with locked(out / LOCK, taken):
        sweep(out)
        record = marked(GRID_MARK, grid_record(settled, name, sys.argv))
        write_text(out / GRID, json.dumps(record, indent=1) + "\n")
        yield


def _write_results(archive: Archive | None, thumbnails: bool, results: Results) -> None:
    from scail.report.write import write_end

    write_end(results.directory, thumbnails=thumbnails)
    _keep(archive, results.directory)


def _keep(archive: Archive | None, run: Path) -> None:
    """Add a finished run to the numbers that are kept."""
    from scail.report.paper import read_run
    from scail.results.run_directory import RunDirectory

    if archive is not None:
        config, summary = read_run(run)
        archive.add(config, RunDirectory(run).rows(), summary["seconds"])


def _print_tables(
    out: Path, ran: Sequence[Configuration], archive: Archive | None, console: Console, thumbnails: bool
) -> None:
    from scail.report.grid import grid_caption, markdown_grid, read_grid, rich_grid, telling
    from scail.report.write import write_page_of
    from scail.storage.atomic import write_text

    found = read_grid(out, archive)
    write_text(out / "table.md", markdown_grid(found))
    for dataset, columns in found.items():
        console.print(rich_grid(dataset, columns))
        console.print(grid_caption(columns, telling(columns)), soft_wrap=True)
    text = f"{len(ran)} configurations were run. Results: {out}/; beside the published ones: scail paper {out}"
    console.print(text, soft_wrap=True)
    if any(out.glob("*/summary.json")):  # else all of it was measured elsewhere, and kept as rows only
        console.print(f"Report: {write_page_of(out, thumbnails)}", soft_wrap=True)
