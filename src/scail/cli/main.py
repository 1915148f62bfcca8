"""The command line: parse, call, print. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import tyro

from scail.cli.grid import GridCommand
from scail.cli.info import DiffCommand, InfoCommand
from scail.cli.learn import ForgetCommand, LearnCommand
from scail.cli.paper import PaperCommand
from scail.cli.predict import EvaluateCommand, ExportCommand, PredictCommand
from scail.cli.prepare import PrepareCommand
from scail.cli.reference import DatasetsCommand, MethodsCommand, RecipesCommand
from scail.cli.report import ReportCommand
from scail.cli.results import ResultsCommand
from scail.cli.run import RunCommand
from scail.cli.store import StoreCommand
from scail.runtime.launch import started_ranks

Command = (
    Annotated[RunCommand, tyro.conf.subcommand("run")]
    | Annotated[GridCommand, tyro.conf.subcommand("grid")]
    | Annotated[ReportCommand, tyro.conf.subcommand("report")]
    | Annotated[PaperCommand, tyro.conf.subcommand("paper")]
    | Annotated[ResultsCommand, tyro.conf.subcommand("results")]
    | Annotated[LearnCommand, tyro.conf.subcommand("learn")]
    | Annotated[PredictCommand, tyro.conf.subcommand("predict")]
    | Annotated[InfoCommand, tyro.conf.subcommand("info")]
    | Annotated[EvaluateCommand, tyro.conf.subcommand("evaluate")]
    | Annotated[DiffCommand, tyro.conf.subcommand("diff")]
    | Annotated[ForgetCommand, tyro.conf.subcommand("forget")]
    | Annotated[ExportCommand, tyro.conf.subcommand("export")]
    | Annotated[PrepareCommand, tyro.conf.subcommand("prepare")]
    | Annotated[MethodsCommand, tyro.conf.subcommand("methods")]
    | Annotated[DatasetsCommand, tyro.conf.subcommand("datasets")]
    | Annotated[RecipesCommand, tyro.conf.subcommand("recipes")]
    | Annotated[StoreCommand, tyro.conf.subcommand("store")]
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


def carry_out(command: Callable[[], None]) -> NoReturn:
    """Carry out a parsed command, and end with its exit code."""
    try:
        command()
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
