"""The command line: one table of commands. Only the module of the one that is called is imported."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from itertools import groupby
from typing import NoReturn

from scail import __version__
from scail.runtime.launch import started_ranks


@dataclass(frozen=True)
class Command:
    """A line of the table."""

    group: str
    summary: str
    place: str
    """The module, and the class in it: a frozen dataclass of options that is called to carry it out."""


_CORRECT, _LISTS = "Put a model right", "List what there is"  # one line for all of them
_SHARE = "Take a model elsewhere, as one ONNX file or whole"

COMMANDS = {
    "run": Command("benchmark", "Train one configuration and print the paper's table", "scail.cli.run:RunCommand"),
    "grid": Command("benchmark", "Run a whole table of the paper, or of your own", "scail.cli.grid:GridCommand"),
    "report": Command("benchmark", "Write a page, figures and tables about runs", "scail.cli.report:ReportCommand"),
    "paper": Command("benchmark", "Compare numbers with what was published", "scail.cli.paper:PaperCommand"),
    "learn": Command("classifier", "Teach a model new classes", "scail.cli.learn:LearnCommand"),
    "predict": Command("classifier", "Classify images", "scail.cli.predict:PredictCommand"),
    "unknown": Command("classifier", "Sort unknown images into groups", "scail.cli.unknown:UnknownCommand"),
    "evaluate": Command("classifier", "Measure a model on labelled images", "scail.cli.evaluate:EvaluateCommand"),
    "info": Command("classifier", "Show a model, and what its last learn did", "scail.cli.info:InfoCommand"),
    "undo": Command("classifier", _CORRECT, "scail.cli.correct:UndoCommand"),
    "relabel": Command("classifier", _CORRECT, "scail.cli.correct:RelabelCommand"),
    "rename": Command("classifier", _CORRECT, "scail.cli.correct:RenameCommand"),
    "forget": Command("classifier", _CORRECT, "scail.cli.correct:ForgetCommand"),
    "export": Command("classifier", _SHARE, "scail.cli.predict:ExportCommand"),
    "push": Command("classifier", _SHARE, "scail.cli.share:PushCommand"),
    "pull": Command("classifier", _SHARE, "scail.cli.share:PullCommand"),
    "serve": Command("classifier", "A page to teach and try a model, and an API", "scail.cli.serve:ServeCommand"),
    "methods": Command("reference", _LISTS, "scail.cli.reference:MethodsCommand"),
    "datasets": Command("reference", _LISTS, "scail.cli.reference:DatasetsCommand"),
    "recipes": Command("reference", _LISTS, "scail.cli.reference:RecipesCommand"),
    "check": Command("reference", "Try methods of your own", "scail.cli.check:CheckCommand"),
    "prepare": Command("reference", "Pack a data set, or crop faces", "scail.cli.prepare:PrepareCommand"),
    "store": Command("reference", "Look into the store of trained states, make room", "scail.cli.store:StoreCommand"),
    "completion": Command("reference", "Complete commands in your shell", "scail.cli.completion:CompletionCommand"),
}


FORMER = {"results": "paper", "diff": "info"}
"""What commands were called before."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and end with its exit code: 0, 2 for a user's mistake, 130 after Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that this terminal's encoding lacks is no error
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")
    carry_out(partial(_obey, sys.argv[1:] if argv is None else argv))


def _obey(words: Sequence[str]) -> None:
    if not words:
        print(overview(), file=sys.stderr)
        sys.exit(2)
    name, *options = words
    if name in ("-h", "--help") or (name == "help" and not options):
        print(overview())
    elif name == "help":  # of one command
        _obey([options[0], "--help"])
    elif name == "--version":
        print(f"scail {__version__}")
    elif name in COMMANDS:
        from scail.cli.parsing import parse

        parse(name, command_of(name), options)()
    else:
        raise ValueError(_unknown(name))


def command_of(name: str) -> type[Callable[[], None]]:
    """The dataclass of a command; its module is imported now."""
    module, _, kind = COMMANDS[name].place.partition(":")
    command: type[Callable[[], None]] = getattr(import_module(module), kind)
    return command


def overview() -> str:
    """What `scail --help` prints: the table, on one screen."""
    lines = ["usage: scail COMMAND [OPTIONS]"]
    lines += ["Teach an image classifier new classes over time, when old data can't be kept."]
    for group, commands in groupby(COMMANDS.items(), key=lambda item: item[1].group):
        lines.append(f"{group}:")
        for summary, alike in groupby(commands, key=lambda item: item[1].summary):
            names = [name for name, _ in alike]
            lines.append(f"  {names[0]:12}{summary}" if len(names) == 1 else f"  {', '.join(names)}: {summary}")
    return "\n".join([*lines, "`scail COMMAND --help` explains a command and its options."])


def _unknown(name: str) -> str:
    if name.startswith("-"):
        return f"{name}: expected a command before options, as `scail run {name}`; see `scail --help`"
    if name == "version":
        return "unknown command 'version'; `scail --version` tells it"
    near = difflib.get_close_matches(name, COMMANDS, 1)
    if name in FORMER:
        hint = f"`scail {FORMER[name]}` does that now."
    else:
        hint = f"did you mean `scail {near[0]}`?" if near else f"known: {', '.join(COMMANDS)}."
    return f"unknown command {name!r}; {hint} See `scail --help`"


def carry_out(command: Callable[[], None]) -> NoReturn:
    """Carry out a command, and end with its exit code."""
    try:
        try:
            command()
        finally:
            sys.stdout.flush()  # here, where a reader that has gone away is dealt with
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
        from scail.storage.atomic import told

        if error.filename is None and error.errno is not None and not sys.stdout.isatty():
            error.filename = "standard output"  # what is written to files is named where it is written
            with contextlib.suppress(OSError, ValueError):  # or Python would try again as it ends, and complain
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(told(error), 2)
    sys.exit(0)


def _rank() -> int:
    """0 also where the surroundings say nothing that can be understood: that is the error to be told."""
    try:
        return (started_ranks() or (0, 1))[0]
    except ValueError:
        return 0


def _fail(message: str, code: int, silent: bool = False) -> NoReturn:
    """End with this message; silent where another rank says it."""
    from scail.cli.shown import shown

    who = f"rank {_rank()}: " if _rank() > 0 else ""
    if not silent:
        print(f"scail: {'' if code == 130 else 'error: '}{who}{shown(message)}", file=sys.stderr)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        # Its connections to other ranks are open, or broken: taken down with Python they can abort the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
