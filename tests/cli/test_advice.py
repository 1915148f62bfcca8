"""What errors and notes advise can be done: whoever names an option is heard only where there is such an option.

Which texts a command can say is read off the code: from its `__call__`, through every function, class and table that is
named on the way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import scail
from scail.cli.main import COMMANDS, command_of
from scail.cli.parsing import options_of

PACKAGE = Path(scail.__file__).parent
Place = tuple[str, str]  # a module, and a name in it
OTHERS = ("hf download", "pip install", "git", "torchrun")  # programs with options of their own


@cache
def parsed(module: str) -> ast.Module | None:
    path = PACKAGE.parent / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else None


@cache
def defined(module: str) -> dict[str, ast.stmt]:
    """Functions, classes and values of a module, by name."""
    found: dict[str, ast.stmt] = {}
    tree = parsed(module)
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found |= dict.fromkeys(names, node)
    return found


@cache
def imported(module: str) -> dict[str, Place]:
    """What a module imports, anywhere in it, by the name that it has there."""
    tree, found = parsed(module), {}
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "scail":
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found


@cache
def home(place: Place) -> Place | None:
    """Where a name is defined: packages offer what stands in their modules."""
    module, name = place
    if name in defined(module):
        return place
    if parsed(module) is None or parsed(f"{module}.{name}") is not None:  # not a module, or itself one
        return None
    if name in imported(module):
        return home(imported(module)[name])
    kind = getattr(import_module(module), name, None)  # loaded when it is first used
    found = getattr(kind, "__module__", ""), getattr(kind, "__name__", "")
    return found if found[0].startswith("scail") and found != place else None


def named(module: str, node: ast.AST) -> Iterator[Place]:
    """The places that a piece of code names."""
    for part in walked(node):
        if isinstance(part, ast.Name):
            yield from [(module, part.id)] if part.id in defined(module) else []
            yield from [imported(module)[part.id]] if part.id in imported(module) else []
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            origin = imported(module).get(part.value.id)
            yield from [(".".join(origin), part.attr)] if origin and home(origin) is None else []
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield from [(m, n) for m, n in re.findall(r"^(scail[\w.]+):(\w+)$", part.value)]


def walked(node: ast.AST) -> Iterator[ast.AST]:
    """A piece of code and all in it; without types, and without texts that stand alone, which document."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from walked(part)


def reached(start: Place) -> set[Place]:
    """Everything that code can come to from here."""
    found, waiting = set[Place](), [start]
    while waiting:
        place = home(waiting.pop())
        if place is not None and place not in found and place[0] != "scail.cli.main":
            found.add(place)
            waiting += named(place[0], defined(place[0])[place[1]])
    return found


@cache
def texts(place: Place) -> tuple[str, ...]:
    """The texts in a piece of code; what is filled in is left out."""
    found, inside = [], set[int]()
    for node in walked(defined(place[0])[place[1]]):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            found.append("".join(p.value if isinstance(p, ast.Constant) else "{}" for p in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            found.append(node.value)
    return tuple(found)


def advice(text: str) -> Iterator[tuple[str | None, str]]:
    """The options that a text names, each with the command that it names before, if it names one."""
    for match in re.finditer(r"(?<![\w-])--[a-z][a-z0-9-]+", text):
        before = re.split(r"(?<!\.)[;.,:]\s|`[^`]*`", text[: match.start()])[-1]
        commands = re.findall(r"\b(?:scail )?(\w+)\b", before)
        if not any(other in before for other in OTHERS):
            yield next((name for name in reversed(commands) if name in COMMANDS), None), match[0]


NEVER_SAID = {
    ("datasets", "scail.datasets."): "it lists data sets, and loads none",
    ("check", "scail.datasets."): "it takes digits",
    ("check", "scail.runtime."): "it has one device",
    ("check", "scail.stream:"): "its order of classes is drawn",
    ("check", "scail.networks."): "its network begins with random weights",
    ("check", "scail.storage."): "its store is a folder of temporary files",
    ("learn", "scail.datasets.settle:_KEPT"): "it keeps no copies",
    ("paper", "scail.results.archive:Archive"): "it reads kept numbers, and adds none",
    ("evaluate", "scail.datasets.settle:_KEPT"): "it keeps no copies",
    ("prepare", "scail.datasets.settle:_KEPT"): "its images stay on disk",
    ("evaluate", "scail.cli.learn:read_data"): "it always leaves broken images out",
    ("evaluate", "scail.datasets.images.decode:read_region"): "it says the first half of it only",
    **{
        (command, "scail.datasets.omitted:Omitted"): "it is not said where the caller has no choice"
        for command in ("run", "grid", "prepare", "predict", "unknown", "relabel", "forget")
    },
    **{
        (command, "scail.networks.pretrained:_fill"): "it reads weights of a model, not to begin with"
        for command in ("predict", "unknown", "evaluate", "export", "serve")
    },
}
"""Texts that a command comes by and does not say, with the reason."""


def has(command: str, place: Place) -> set[str]:
    """The options that may be named at this place."""
    found = {*options_of(command_of(command)), "--help", "--version"}
    in_file = command == "grid" and place[0] in ("scail.config.options", "scail.runtime.devices")
    return found | set(options_of(command_of("run"))) if in_file else found  # a grid's file may have given it


@pytest.mark.parametrize("command", COMMANDS)
def test_whoever_is_advised_to_use_an_option_has_it(command):
    module, _, kind = COMMANDS[command].place.partition(":")
    wrong, needed = list[str](), set[str]()
    for place in sorted(reached((module, kind))):
        named = ":".join(place)
        silent = {beginning for who, beginning in NEVER_SAID if who == command and named.startswith(beginning)}
        for text in texts(place):
            if re.fullmatch(r"--[\w-]+(=\w+)?", text):  # a word of a command line, not advice
                continue
            for other, option in advice(text):
                if option not in has(other or command, place):
                    wrong += [] if silent else [f"{named}: {other or command} has no {option}: {text}"]
                    needed |= silent
    assert not wrong, "\n".join(wrong)
    assert {beginning for who, beginning in NEVER_SAID if who == command} == needed
