"""The page of settings: every one of an experiment and of a schedule, as the code declares it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from mkdocs.structure.files import File, Files

from scail.config import (
    RECIPES,
    DataSettings,
    ExemplarSettings,
    Experiment,
    HeadOptions,
    Machine,
    Recipe,
    Schedule,
    StreamSettings,
)
from scail.config.options import CommandOptions, RunOptions
from scail.training import TRAINERS

PARTS = (Experiment, StreamSettings, ExemplarSettings, DataSettings, HeadOptions, Recipe, Machine)
OPTIONS = {"class_order": "order", "on_disk": "images", "own_methods": "with"}
"""Settings whose options have another name."""
_PARTS_OF_EXPERIMENT = ("recipe", "data", "stream", "exemplars", "heads", "machine", "schedules", "own_content")
_INTRODUCTION = """# Settings

An experiment is made of settings. `scail run` takes them as options, `Experiment(...).but(...)` by their names.
`scail recipes paper` prints all values of a recipe. A grid's file has the options as its keys.
"""
_SCHEDULES = """
## Schedules

A schedule says how long and how fast one training is. A trainer names the schedules that it uses.
On the command line: `--schedule distill.lr=2,bic-correction.epochs=50`. In Python: `.but(distill_schedule=...)`.
`--epochs E0,E` changes the first trainings and the later ones, `--batch-size` all of them.

"""


def on_files(files: Files, config: Any) -> None:
    """Add the page."""
    files.append(File.generated(config, "reference/settings.md", content="\n".join(_page())))


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    options = {one.name.rstrip("_") for part in (RunOptions, CommandOptions) for one in fields(part)}
    for part in PARTS:
        yield f"## {_first_line(part)}\n\n| name | option | default | |\n|---|---|---|---|"
        for name, default, text in _fields(part):
            option = OPTIONS.get(name, name)
            shown = f"`--{option.replace('_', '-')}`" if option in options else ""
            yield f"| `{name}` | {shown} | {default} | {text} |"
        yield ""
    yield _SCHEDULES
    yield "| name | used by | `quick` | `paper`, CIFAR-100 |\n|---|---|---|---|"
    quick, paper = (RECIPES[name]("cifar100").recipe.schedules for name in ("quick", "paper"))
    for name in quick:
        users = dict.fromkeys(kind.title for kind in TRAINERS.values() if name in kind.schedules)
        cells = [f"`{name.replace('_', '-')}`", "; ".join(users), _in_words(quick[name]), _in_words(paper[name])]
        yield f"| {' | '.join(cells)} |"
    yield "\n### What a schedule holds\n\n| name | default | |\n|---|---|---|"
    yield from (f"| `{name}` | {default} | {text} |" for name, default, text in _fields(Schedule))


def _first_line(part: type) -> str:
    return (part.__doc__ or "").splitlines()[0].partition(".")[0].partition(":")[0]


def _fields(part: type) -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning."""
    declared = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
    assert isinstance(declared, ast.ClassDef)
    texts, name = dict[str, str](), ""
    for node in declared.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts[name] = " ".join(str(node.value.value).split()).replace("|", "\\|")
    for one in fields(part):
        if one.name not in _PARTS_OF_EXPERIMENT:
            default = "" if one.default is MISSING else f"`{one.default}`"
            yield str(one.metadata.get("record", one.name)), default, texts[one.name]


def _in_words(schedule: Schedule) -> str:
    """A schedule in a table's cell."""
    after = ", ".join(map(str, schedule.milestones))
    until = {
        "settle": f"until the loss no longer falls, at most {schedule.epochs} epochs",
        "plateau": f"{schedule.epochs} epochs, /{schedule.divide_by:g} on a plateau of {schedule.patience}",
        "steps": f"{schedule.epochs} epochs" + f", /{schedule.divide_by:g} after {after}" * bool(after),
        "cosine": f"{schedule.epochs} epochs, cosine",
    }[schedule.decay]
    rate = f"{schedule.lr:g}" + "/(k+1)" * schedule.divide_by_state
    decay = f"{schedule.weight_decay:g}" + " * Z/(k+1)" * bool(schedule.weight_decay_states)
    return f"{rate}, {until}; batches of {schedule.batch_size}, weight decay {decay}"
