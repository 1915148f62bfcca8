"""`scail grid`: many configurations at once, planned before they start."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from scail.runtime.launch import started_ranks

if TYPE_CHECKING:
    from rich.console import Console

    from scail.benchmark.grid import Settled
    from scail.benchmark.paper_grids import Wanted
    from scail.benchmark.plan import Cell
    from scail.benchmark.runner import Engine, Results
    from scail.results.archive import Archive


@dataclass(frozen=True)
class GridCommand:
    """Run all configurations of a table or figure of the paper, or of a file of your own.

    First comes a plan: how many trainings there are, how many are saved because configurations and methods share them,
    and how long they take here. Then every trajectory is trained once. Each configuration has a folder of results below
    --out. After Ctrl-C or a crash the same command goes on. `scail paper DIR` compares the results with the published
    ones.

    NAME is table1 (all methods, five configurations of Z and B), table2 (errors on ILSVRC), supp-errors (errors on all
    data sets), supp-nomem (no memory), supp-distill (fifty states) or figures.

    FILE is YAML with options of `scail run`. A list stands for each of its values. These lines make twelve
    configurations, and options given here replace those of the file:

      dataset: cifar100
      states: [10, 20]
      memory: [2%, 1%]
      seed: [1, 2, 3]

    Try one of these; the first needs no data:

      scail grid table1 --recipe paper --plan
      scail grid table1 --datasets cifar100 --methods ft,scail,full --jobs 2
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME|FILE")]
    """A grid of the paper, or a YAML file."""
    datasets: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Data sets, names or paths, separated by commas. Default: the grid's own."""
    methods: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Only these of the grid's methods, separated by commas. Nothing is trained for the others."""
    select: Literal["random", "herding", "both"] | None = None
    """How the images that are kept of a class are chosen. Default: for each method as in the paper's table.
    random, herding or both: as in `scail run`. Example: --select herding, for all methods."""
    recipe: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The named set of numbers to train with: network, epochs, learning rates and so on. Default: quick.
    quick fits a CPU, paper is the paper's own training; `scail recipes` lists all. Example: --recipe cifar100-cpu."""
    epochs: Annotated[str | None, tyro.conf.arg(metavar="E|E0,E")] = None
    """Epochs of every training, for trials, as in `scail run`. Default: the recipe's."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Images in a batch, in every training. Default: the recipe's."""
    network: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The network, as in `scail run`. Default: the recipe's."""
    classes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take only the first N classes. The memory is then 2, 1 and 0.5 % of the images that are left."""
    images_per_class: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take only N training images of each class. The memory follows, as for --classes."""
    image_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Side of the images in pixels, if the data set leaves it open."""
    order: Annotated[str | None, tyro.conf.arg(metavar="seed|icarl|given|FILE")] = None
    """The order in which classes arrive, as in `scail run`. Default: the recipe's."""
    split: Literal["icarl", "official"] | None = None
    """ILSVRC: which images to test on, as in `scail run`. Default: icarl."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Threads that decode images from disk. Default: 2."""
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] | None = None
    """Where to train. Default: auto, which is a GPU if there is one."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] | None = None
    """Number format of the training. Default: 32-true."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """The seed, or the first of several. Default: 1."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """How many seeds to run, from --seed on. The table then has means and standard deviations."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many trainings run at a time, on CPUs with one thread each. Never changes a number.
    Default: as the cores allow."""
    engine: Literal["local", "ray"] = "local"
    """local: trainings run in processes here. ray: on a Ray cluster (pip install 'scail[ray]').
    The results are the same."""
    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """ray: the cluster, or auto for that of this machine. Default: one is started here for this grid."""
    gpus_per_training: Annotated[float, tyro.conf.arg(metavar="N")] = 0
    """ray: how many GPUs each training has."""
    logger: Literal["tensorboard", "wandb", "mlflow"] | None = None
    """Also send losses and accuracies there as they arrive, as in `scail run`."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of the results. Default: one in runs/ by the grid's name, so that the same command goes on."""
    store: Annotated[str | None, tyro.conf.arg(metavar="DIR|URL")] = None
    """Where trained states are kept, as in `scail run`. All machines of a cluster must reach it."""
    results: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder of measured numbers to keep. What it has is not run again. What is finished is added to it.
    The table of the grid has all of them, the folder of a run only its own."""
    plan: bool = False
    """Print the plan, and end."""

    def __call__(self) -> None:
        """Plan, run what is not finished, and print the table."""
        _run_grid(self)


def _run_grid(grid: GridCommand) -> None:
    from rich.console import Console

    from scail.benchmark.configuration import config_of
    from scail.benchmark.grid import is_finished, settle
    from scail.benchmark.loggers import check_logger, logging_to
    from scail.benchmark.runner import run_cells
    from scail.cli.display import Display
    from scail.results.archive import Archive

    if grid.logger:
        check_logger(grid.logger)
    console, out = Console(), grid.out or Path("runs") / _default_name(grid)
    if (grid.jobs is not None and grid.jobs < 1) or (grid.seeds is not None and grid.seeds < 1):
        raise ValueError(f"seeds is {grid.seeds} and jobs is {grid.jobs}: expected 1 or more")
    if started_ranks() is not None:
        raise ValueError("scail grid trains each network on one device: start it without torchrun, or use --engine ray")
    engine = _engine(grid, console)
    archive = Archive(grid.results) if grid.results else None
    settled = settle(_wanted(grid), out, archive)
    finished = {i for i, cell in enumerate(settled.cells) if is_finished(cell)}
    _print_plan(grid, settled, finished, console)
    if grid.plan:
        return
    if settled.missing:
        reasons = "; ".join(settled.missing.values())
        raise ValueError(f"data not here: {', '.join(settled.missing)}. {reasons}. Or choose others with --datasets")
    todo = [cell for i, cell in enumerate(settled.cells) if i not in finished]
    with _grid_folder(out, settled, grid.name):
        for cell in (settled.cells[i] for i in sorted(finished) if settled.cells[i].setup.lines):
            _keep(archive, cell.folder)
        keep = partial(_write_cell, archive)
        with logging_to(grid.logger, out / "logs", Display(console)) as (begin, receive):
            run_cells(
                todo, store=grid.store, jobs=grid.jobs, begin=begin, receive=receive, finished=keep, engine=engine
            )
        if archive is not None:
            for cell in settled.cells:  # what was not run may still have Full from others
                archive.add(config_of(cell.setup), (), 0.0)
        _print_tables(out, todo, archive, console)


def _engine(grid: GridCommand, console: Console) -> Engine | None:
    """Where the trainings run; None: in processes here."""
    if grid.engine == "local":
        if grid.address is not None or grid.gpus_per_training:
            raise ValueError("--address and --gpus-per-training are for --engine ray")
        return None
    from scail.benchmark.cluster import Cluster, run_on_cluster

    cluster = Cluster(grid.address, grid.gpus_per_training, grid.jobs)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    return lambda jobs, store, receive: run_on_cluster(jobs, store, receive, cluster, say)


def _default_name(grid: GridCommand) -> str:
    """Recipes do not overwrite each other's results."""
    return Path(grid.name).stem if _is_file(grid.name) else f"{grid.name}-{grid.recipe or 'quick'}"


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or Path(name).is_file()


def _wanted(grid: GridCommand) -> list[Wanted]:
    from scail.benchmark.grid_file import file_grid
    from scail.benchmark.paper_grids import Wanted, named_grid

    names = (
        "recipe", "epochs", "batch_size", "network", "classes", "images_per_class", "image_size", "order", "split",
        "workers", "accelerator", "precision",
    )  # fmt: skip
    options = {name: getattr(grid, name) for name in names if getattr(grid, name) is not None}
    datasets, methods = _parts(grid.datasets), _parts(grid.methods)
    if not _is_file(grid.name):
        first = 1 if grid.seed is None else grid.seed
        seeds = range(first, first + (grid.seeds or 1))
        return named_grid(grid.name, datasets, methods, grid.select, seeds, options)
    replaced = {"select": grid.select, "seed": grid.seed, "seeds": grid.seeds, "methods": grid.methods}
    options |= {name: value for name, value in replaced.items() if value is not None}
    if datasets:
        options["dataset"] = datasets
    return [Wanted(run, varying=varying) for run, varying in file_grid(Path(grid.name), options)]


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _print_plan(grid: GridCommand, settled: Settled, finished: set[int], console: Console) -> None:
    from scail.benchmark.plan import Count, plan_of
    from scail.benchmark.plan_text import assumptions, plan_table, seconds_of
    from scail.benchmark.runner import processes_for
    from scail.storage.remote_store import keys_in

    stored = keys_in(grid.store)
    counts = plan_of(settled.cells, stored, finished, seconds_of)
    total = sum(counts.values(), Count())
    processes = grid.jobs or processes_for(settled.cells, total.trajectories)
    console.print(plan_table(counts, total, processes, settled.missing))
    for text in (*assumptions(total, processes, settled.missing), *(f"note: {n}" for n in settled.notes)):
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    for i in sorted(finished):
        console.print(f"{settled.cells[i].title}: finished before, not run again", highlight=False, soft_wrap=True)


@contextmanager
def _grid_folder(out: Path, settled: Settled, name: str) -> Iterator[None]:
    """The grid's folder, held by one run at a time, with grid.json in it."""
    from filelock import FileLock, Timeout

    from scail.benchmark.grid import grid_record
    from scail.results.run_directory import write_text

    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: is a file; give a directory")
    inside = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if inside - {".lock"} and "grid.json" not in inside:
        raise ValueError(f"--out {out}: holds files that are not a scail grid; give a new directory")
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"--out {out}: another grid is writing there; wait, or give another directory") from None
    try:
        write_text(out / "grid.json", json.dumps(grid_record(settled, name, sys.argv), indent=1) + "\n")
        yield
    finally:
        lock.release()


def _write_cell(archive: Archive | None, results: Results) -> None:
    from scail.cli.run import write_report

    write_report(results.directory, results.summary, [results.directory])
    _keep(archive, results.directory)


def _keep(archive: Archive | None, run: Path) -> None:
    """Add a finished run to the numbers that are kept."""
    from scail.report.paper import read_run
    from scail.results.run_directory import RunDirectory

    if archive is not None:
        config, summary = read_run(run)
        archive.add(config, RunDirectory(run).rows(), summary["seconds"])


def _print_tables(out: Path, ran: Sequence[Cell], archive: Archive | None, console: Console) -> None:
    from scail.report.grid import grid_caption, markdown_grid, read_grid, rich_grid
    from scail.report.write import write_page_of
    from scail.results.run_directory import write_text

    found = read_grid(out, archive)
    write_text(out / "table.md", markdown_grid(found))
    for dataset, columns in found.items():
        console.print(rich_grid(dataset, columns))
        console.print(grid_caption(columns), highlight=False, soft_wrap=True)
    text = f"{len(ran)} configurations were run. Results: {out}/; beside the published ones: scail paper {out}"
    console.print(text, highlight=False, soft_wrap=True)
    if any(out.glob("*/summary.json")):  # else all of it was measured elsewhere, and kept as rows only
        console.print(f"Report: {write_page_of(out)}", highlight=False, markup=False, soft_wrap=True)
