"""`scail run`: one configuration, and the paper's table."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from scail.config import Experiment
from scail.config.options import CommandOptions, RunOptions, experiment_of
from scail.runtime.launch import become_rank, launch, started_ranks
from scail.storage.cache import keep_images


@dataclass(frozen=True, kw_only=True)
class RunCommand(CommandOptions, RunOptions):
    """Train one configuration and print the paper's table.

    A network learns the classes in Z states, and keeps at most B images of past ones. One training serves many methods:
    FT, ScaIL and others differ only in how they read it. Finished states are kept in a store and never trained twice.
    After Ctrl-C or a crash the same command goes on where it stopped.

      scail run --dataset digits --states 5    # every method, a minute or so
      scail run                                # on glyphs, several minutes
      scail run --states 20 --memory 1% --methods ft,scail --seeds 3 --out runs/mine
    """

    def __call__(self) -> None:
        """Run, and print the table; with several devices, in a process for each of them."""
        keep_images(not self.no_image_cache)
        devices, started = devices_of(self), started_ranks()
        experiment, seeds = experiment_of(replace(self, devices=devices)), 1 if self.seeds is None else self.seeds
        if devices * self.nodes > 1 and started is None:
            from scail.benchmark.runner import check_counts

            check_counts(experiment, seeds, self.jobs)  # what is wrong is said before any process is started
            sys.exit(launch(_as_rank, self, devices, self.nodes))
        if started is not None and started[0] > 0:  # rank 0 speaks and writes
            from scail.benchmark.runner import run_experiment

            run_experiment(experiment, seeds=seeds, jobs=self.jobs)
        else:
            self._lead(experiment, seeds)

    def _lead(self, experiment: Experiment, seeds: int) -> None:
        """Run as the only process, or as the one of several that speaks and writes."""

        from scail.benchmark.finished import Finished
        from scail.benchmark.loggers import check_logger, logging_to
        from scail.benchmark.runner import new_run_folder, run_experiment
        from scail.cli.display import Display
        from scail.cli.terminal import Terminal
        from scail.report.in_words import in_words
        from scail.report.table import caption, rich_table
        from scail.report.write import write_end

        if self.logger:
            check_logger(self.logger)
        console = Terminal()
        out = self.out or (new_run_folder(experiment) if self.logger else None)  # logs are written from the start
        display = Display(console, Finished.in_store(self.store))
        with logging_to(self.logger, (out or Path()) / "logs", display) as (begin, receive):
            results = run_experiment(
                experiment, out, seeds=seeds, store=self.store, jobs=self.jobs, begin=begin, receive=receive
            )
        out, summary = results.directory, results.summary
        console.print(rich_table(summary))
        console.print(caption(summary), soft_wrap=True)
        console.print("", *in_words(summary), "", sep="\n", soft_wrap=True)
        numbers = range(experiment.seed, experiment.seed + seeds)
        page = write_end(out, () if seeds == 1 else [out / f"seed-{n}" for n in numbers], not self.no_thumbnails)
        where = f"{summary['trained_epochs']} epochs trained, {summary['seconds']:.0f} s. Results, table and figures: "
        console.print(f"{where}{out}/", soft_wrap=True)
        console.print(f"Report: {page}", soft_wrap=True)


def devices_of(run: RunOptions) -> int:
    """Devices on each node: as given; else as many as torchrun has started, or one."""
    started = started_ranks()
    if run.devices is not None or started is None or run.nodes < 1:
        return 1 if run.devices is None else run.devices
    return started[1] // run.nodes


def _as_rank(local: int, command: RunCommand, around: dict[str, str]) -> None:
    """One of the processes of `scail run --devices`."""
    from scail.cli.main import carry_out

    become_rank(local, around)
    carry_out(command)
