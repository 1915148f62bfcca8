"""From words on the command line to a command: parsed by tyro, with help that fits the terminal."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro


def parse(name: str, command: Any, options: Sequence[str]) -> Callable[[], None]:
    """The command of this name with these options; `--help` ends here."""
    if list(options[1:2]) in (["-h"], ["--help"]) and (inner := _inner(command, options[0])):
        return parse(f"{name} {options[0]}", inner, options[1:])
    description = None
    if list(options[:1]) in (["-h"], ["--help"]):
        print(_wrapped(command.__doc__) + "\n")
        description = ""  # tyro would print it below, in lines of any length
    for option in _LISTS:
        if sum(word.partition("=")[0] == option for word in options) > 1:
            raise ValueError(
                f"{option} is given twice, and the last alone would count: give it once, with commas between"
            )
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
    told = io.StringIO()
    shielded = _shielded(options)
    try:
        with contextlib.redirect_stderr(told) if shielded != [*options] else contextlib.nullcontext():
            parsed: Callable[[], None] = tyro.cli(
                _hinted(command), prog=f"scail {name}", description=description, args=shielded, config=config
            )
    except SystemExit as end:
        sys.stderr.writelines(map(_without_shield, told.getvalue().splitlines(keepends=True)))
        if end.code and (hint := _hint(name, command, options)):
            print(hint, file=sys.stderr)
        raise
    bare: Callable[[], None] = _bare(parsed)
    return bare


_LISTS = ("--schedule", "--with")
"""Options that take several values in one word. Of others the last counts, as everywhere."""
_SHIELD = "\ue000"
"""Before a word that begins with a dash while it is parsed: no option is so short, so it is a name."""


def _shielded(words: Sequence[str]) -> list[str]:
    """The words, those with a single dash in front as values, as the class -x; what stands behind -- is one anyway."""
    end = words.index("--") if "--" in words else len(words)
    names = [word != "-h" and re.match(r"-[^-\d.]", word) for word in words[:end]]
    return [f"{_SHIELD}{word}" if name else word for name, word in zip_longest(names, words)]


def _without_shield(line: str) -> str:
    """A line of an error; the frame around it stays straight."""
    return re.sub("│$", f"{' ' * line.count(_SHIELD)}│", line).replace(_SHIELD, "")


def _bare(value: Any) -> Any:
    """A value that was parsed, and all in it, without shields."""
    if isinstance(value, str | Path):
        return type(value)(str(value).replace(_SHIELD, ""))
    if isinstance(value, tuple):
        return tuple(map(_bare, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _bare(getattr(value, field.name)) for field in fields(value)})
    return value


_OF_CLASSES = {"--name", "--old", "--to", "--classes"}
"""Where names of classes are given. These may begin with a dash."""


def _hint(name: str, command: Any, words: Sequence[str]) -> str:
    """What to do, where the words of an error do not say it; else empty."""
    if name == "run" and words and not words[0].startswith("-"):
        return f"which images stands behind --dataset: scail run --dataset {shlex.quote(words[0])}"
    known = {*options_of(command)}
    if _OF_CLASSES & known and (dashed := _like_no_option(words, command)):
        inline = next((f", or =: {option}={dashed}" for option in ("--to", "--classes") if option in known), "")
        return f"if {dashed} is a name, it stands behind --, as -- {dashed}{inline}"
    return ""


def _like_no_option(words: Sequence[str], command: Any) -> str:
    """The first word with two dashes that is not a mistyped option either; empty where there is none."""
    known = ["--help", *options_of(command)]
    names = (word.partition("=")[0] for word in words if word.startswith("--") and word != "--")
    return next((name for name in names if not difflib.get_close_matches(name, known, 1)), "")


def _inner(command: Any, word: str) -> Any:
    """The command of a command that has this name, as gc of `scail store`; None: there is none."""
    parts = [part for hint in get_type_hints(command, include_extras=True).values() for part in _parts(hint)]
    named = [part for part in parts if any(getattr(of, "name", 0) == word for of in getattr(part, "__metadata__", ()))]
    return next((of for part in named for of in get_args(part)[:1] if is_dataclass(of)), None)


def options_of(command: Any) -> list[str]:
    """The options that a command and its own commands take; what goes by its place has a name here, too."""
    hints, found = get_type_hints(command, include_extras=True), list[str]()
    for field in fields(command):
        parts = [*_parts(hints[field.name])]
        inner = [part for part in parts if isinstance(part, type) and is_dataclass(part)]
        said = [part for part in parts if hasattr(part, "aliases")]  # what tyro.conf.arg says of it
        names = [next((one.name for one in said if one.name), field.name)]
        names += [alias.strip("-") for one in said for alias in one.aliases or ()]
        found += [f"--{name.replace('_', '-')}" for name in dict.fromkeys(names)] if not inner else []
        found += [option for one in inner for option in options_of(one)]
    return found


def _parts(hint: Any) -> Iterator[Any]:
    """A type, what it is made of, and what is said beside it."""
    yield hint
    for part in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        yield from _parts(part)


def _hinted(command: Any) -> Any:
    """Its help texts say what happens without an option, so tyro does not add `default: None`."""
    hints = get_type_hints(command, include_extras=True)
    for field in fields(command):
        if field.default is None or field.default is False or field.default == ():
            hints[field.name] = Annotated[hints[field.name], tyro.conf.arg(help_behavior_hint="")]
    command.__annotations__ = hints
    return command


def _wrapped(docstring: str) -> str:
    """Paragraphs as wide as the terminal; indented ones, examples, as they are."""
    fill = partial(textwrap.fill, width=min(100, shutil.get_terminal_size().columns), break_on_hyphens=False)
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(text if text.startswith(" ") else fill(text) for text in paragraphs)
