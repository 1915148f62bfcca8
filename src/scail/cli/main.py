"""The command line: parse, call, print. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import tyro

from scail.cli.grid import GridCommand, grid_command
from scail.cli.info import Diff, Info, diff_command, info_command
from scail.cli.learn import Forget, Learn, forget_command, learn_command
from scail.cli.predict import Evaluate, Export, Predict, evaluate_command, export_command, predict_command
from scail.cli.prepare import Prepare, prepare_command
from scail.cli.report import Report, report_command
from scail.cli.results import ResultsCommand, results_command
from scail.cli.run import Run, check_run, devices_of, run_command
from scail.cli.store import StoreCommand, run_store_command
from scail.config import RECIPES
from scail.runtime.launch import become_rank, launch, started_ranks

if TYPE_CHECKING:
    from scail.methods import Method


@dataclass(frozen=True)
class Paper:
    """Print what was measured beside what was published, cell by cell, and which settings differ from the paper's.

    Give one or several folders of `scail run`. A run that matches no published cell is named with what differs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folders of runs."""


@dataclass(frozen=True)
class Methods:
    """List the methods: what each one does, and what it needs."""


@dataclass(frozen=True)
class Datasets:
    """List the data sets that `scail run --dataset` knows."""


@dataclass(frozen=True)
class Recipes:
    """List the recipes, or print one in full: every hyper-parameter that `scail run --recipe` takes from it."""

    show: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[show NAME]")] = ()
    """Print this recipe."""
    dataset: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = "glyphs"
    """For which data set."""


@dataclass(frozen=True)
class StoreTools:
    """Look into the store of trained states, check it, and make room."""

    command: tyro.conf.OmitSubcommandPrefixes[StoreCommand]


Command = (
    Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[GridCommand, tyro.conf.subcommand("grid")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Paper, tyro.conf.subcommand("paper")]
    | Annotated[ResultsCommand, tyro.conf.subcommand("results")]
    | Annotated[Learn, tyro.conf.subcommand("learn")]
    | Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[Info, tyro.conf.subcommand("info")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Diff, tyro.conf.subcommand("diff")]
    | Annotated[Forget, tyro.conf.subcommand("forget")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Prepare, tyro.conf.subcommand("prepare")]
    | Annotated[Methods, tyro.conf.subcommand("methods")]
    | Annotated[Datasets, tyro.conf.subcommand("datasets")]
    | Annotated[Recipes, tyro.conf.subcommand("recipes")]
    | Annotated[StoreTools, tyro.conf.subcommand("store")]
)


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line, and end with its exit code: 0, 2 for a user's mistake, 130 after Ctrl-C."""
    command = tyro.cli(
        Command,
        prog="scail",
        description="Teach an image classifier new classes over time, when old data can't be kept.",
        args=argv,
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    carry_out(command)


def carry_out(command: Any) -> NoReturn:
    """Carry out a parsed command, and end with its exit code."""
    try:
        if isinstance(command, Run) and devices_of(command) * command.nodes > 1 and started_ranks() is None:
            check_run(command)
            sys.exit(launch(_as_rank, command, devices_of(command), command.nodes))
        _COMMANDS[type(command)](command)
    except ValueError as error:
        if os.environ.get("SCAIL_DEBUG"):
            raise
        _fail(str(error), 2, type(error).__name__ == "Told")
    except KeyboardInterrupt:
        _fail("stopped. Nothing is lost: the same command goes on from here", 130, _rank() > 0)
    except BrokenPipeError:
        sys.stderr.close()  # the reader (head, less) has seen enough
        sys.exit(141)
    except OSError as error:
        if os.environ.get("SCAIL_DEBUG"):
            raise
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}", 2)
    sys.exit(0)


def _as_rank(local: int, command: Run, around: dict[str, str]) -> None:
    """One of the processes of `scail run --devices`."""
    become_rank(local, around)
    carry_out(command)


def _rank() -> int:
    return (started_ranks() or (0, 1))[0]


def _fail(message: str, code: int, silent: bool = False) -> NoReturn:
    """End with this message; silent where another rank says it."""
    who = f"rank {_rank()}: " if _rank() > 0 else ""
    if not silent:
        print(f"scail: {'' if code == 130 else 'error: '}{who}{message}", file=sys.stderr)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        # Its connections to other ranks are open, or broken: taken down with Python they can abort the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _paper(command: Paper) -> None:
    from rich.console import Console
    from rich.table import Table

    from scail.report.paper import compare, differences, find_runs, gaps, nearest, read_run

    console, everything = Console(), []
    for run in find_runs(command.runs):
        config, summary = read_run(run)
        found = compare(config, summary)
        everything += found
        if not found:
            console.print(
                f"{run}: matches no published cell: {nearest(config, summary)}.", highlight=False, soft_wrap=True
            )
            continue
        table = Table("method", "data", "Z", "B", "measured", "published", "difference", box=None, pad_edge=False)
        for one in found:
            values = (f"{one.measured:.1f}", f"{one.published:.1f}", f"{one.measured - one.published:+.1f}")
            table.add_row(one.label, one.dataset, str(one.states), str(one.memory), *values)
        console.print(f"{run} (seed {config['experiment']['seed']}): top-5, {summary['averaging']}", highlight=False)
        console.print(table)
        differing = differences(config)
        console.print(
            f"Differs from the paper in: {'; '.join(differing) or 'nothing that the recipe has'}\n", soft_wrap=True
        )
    if everything:
        table = Table("method", "G_IL measured", "published", "configurations", box=None, pad_edge=False)
        for label, (mine, theirs, count) in gaps(everything).items():
            table.add_row(label, "–" if mine is None else f"{mine:.2f}", f"{theirs:.2f}", str(count))
        console.print("G_IL over the configurations above, and published over the same ones:")
        console.print(table)


def _methods(_: Methods) -> None:
    from rich.console import Console
    from rich.table import Table

    from scail.methods import METHODS

    table = Table("name", "in the paper", "trainer", "exemplars", "what it does", box=None, pad_edge=False)
    for name, method in METHODS.items():
        table.add_row(
            name,
            method.label,
            method.trainer,
            _memory_use(method),
            method.summary if method.in_paper else f"{method.summary} (not in the paper)",
        )
    Console().print(table)


def _memory_use(method: Method) -> str:
    from scail.training import TRAINERS

    if TRAINERS[method.trainer].at_once or method.without_memory:
        return "none"
    chosen = method.select or "both ways"
    return f"{chosen}, needed" if method.needs_exemplars else chosen


def _datasets(_: Datasets) -> None:
    from rich.console import Console
    from rich.table import Table

    from scail.datasets.catalog import DATASETS, OTHERS

    table = Table("name", "what it is", box=None, pad_edge=False)
    for name, text in (DATASETS | OTHERS).items():
        table.add_row(name, text)
    Console().print(table)


def _recipes(command: Recipes) -> None:
    asked = command.show[1:] if command.show[:1] == ("show",) else command.show
    if not asked and not command.show:
        for name, recipe in RECIPES.items():
            print(f"{name:10} {(recipe.__doc__ or '').splitlines()[0]}")
    elif len(asked) != 1 or asked[0] not in RECIPES:
        raise ValueError(f"unknown recipe {' '.join(asked) or '(none)'!r}; known: {', '.join(RECIPES)}")
    else:
        print(json.dumps(RECIPES[asked[0]](command.dataset).record(), indent=1))


_COMMANDS: dict[type, Any] = {
    Run: run_command,
    GridCommand: grid_command,
    Report: report_command,
    Paper: _paper,
    ResultsCommand: results_command,
    Learn: learn_command,
    Predict: predict_command,
    Info: info_command,
    Evaluate: evaluate_command,
    Diff: diff_command,
    Forget: forget_command,
    Export: export_command,
    Prepare: prepare_command,
    Methods: _methods,
    Datasets: _datasets,
    Recipes: _recipes,
    StoreTools: lambda tools: run_store_command(tools.command),
}

if __name__ == "__main__":
    main()
