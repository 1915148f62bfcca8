"""`scail run`: its options, the configuration that they ask for, and the run itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scail.config import Experiment
from scail.config.options import CommandOptions, RunOptions, experiment_of
from scail.runtime.launch import started_ranks


@dataclass(frozen=True, kw_only=True)
class Run(CommandOptions, RunOptions):
    """Train one configuration and print the paper's table.

    A network learns the classes in Z states, keeping at most B old images. All heads (FT, ScaIL, ...) are read from
    the same training. Finished states are kept in a store and never trained twice; after Ctrl-C or a crash the same
    command goes on where it stopped.

    Try `scail run --dataset digits --states 5` (a minute or so), `scail run` (several minutes), or
    `scail run --states 20 --memory 1% --methods ft,scail --select herding --seeds 3 --out runs/mine`.
    """


def devices_of(run: RunOptions) -> int:
    """Devices on each node: as given; else as many as torchrun has started, or one."""
    started = started_ranks()
    if run.devices is not None or started is None or run.nodes < 1:
        return 1 if run.devices is None else run.devices
    return started[1] // run.nodes


def experiment_here(run: RunOptions) -> Experiment:
    """The experiment that is asked for, on as many devices as this process is one of."""
    return experiment_of(replace(run, devices=devices_of(run)))


def write_report(out: Path, summary: dict[str, Any], runs: Sequence[Path]) -> Path:
    """Draw the paper's figures of each run, write the page, then the table: where it is, all of it is there."""
    from scail.report.figures import PAPERS, write_figures
    from scail.report.runs import read_report_run
    from scail.report.table import markdown_table
    from scail.report.write import write_page_of
    from scail.storage.atomic import write_text

    for run in runs:
        write_figures(read_report_run(run), run / "figures", ["png"], PAPERS)
    page = write_page_of(out)
    write_text(out / "table.md", markdown_table(summary))
    return page


def check_run(run: Run) -> None:
    """What is wrong with the options is said before any process is started for them."""
    from scail.benchmark.runner import check_counts

    check_counts(experiment_here(run), 1 if run.seeds is None else run.seeds, run.jobs)


def run_command(run: Run) -> None:
    """Run, and print the table."""
    experiment, seeds = experiment_here(run), 1 if run.seeds is None else run.seeds
    from scail.benchmark.runner import new_run_folder, run_experiment

    if (started_ranks() or (0, 1))[0] > 0:  # rank 0 writes, and shows what happens
        run_experiment(experiment, seeds=seeds)
        return
    from rich.console import Console

    from scail.benchmark.loggers import check_logger, logging_to
    from scail.cli.display import Display
    from scail.report.table import caption, rich_table

    if run.logger:
        check_logger(run.logger)
    console = Console()
    display = Display(console)
    out = run.out or (new_run_folder(experiment) if run.logger else None)  # logs are written from the start
    with logging_to(run.logger, (out or Path()) / "logs", display) as (begin, receive):
        results = run_experiment(
            experiment, out, seeds=seeds, store=run.store, jobs=run.jobs, begin=begin, receive=receive
        )
    out = results.directory
    console.print(rich_table(results.summary))
    console.print(caption(results.summary), highlight=False, soft_wrap=True)
    numbers = range(experiment.seed, experiment.seed + seeds)
    page = write_report(out, results.summary, [out] if seeds == 1 else [out / f"seed-{n}" for n in numbers])
    trained, seconds = results.summary["trained_epochs"], results.summary["seconds"]
    where = f"{trained} epochs trained, {seconds:.0f} s. Results, table and figures: {out}/"
    console.print(where, highlight=False, soft_wrap=True)
    console.print(f"Report: {page}", highlight=False, markup=False, soft_wrap=True)
