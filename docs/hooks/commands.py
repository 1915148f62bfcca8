"""The page of the command line: every command's own help, as it is printed, set as a page."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any
from unittest.mock import patch

from mkdocs.structure.files import File, Files

from scail.cli.main import COMMANDS, main

_INTRODUCTION = """# Command line

Every command says the same with `--help`. A command ends with 0 when it is done, with 2 for a mistake in what was
asked, and with 130 after Ctrl-C.

"""


def on_files(files: Files, config: Any) -> None:
    """Add the page."""
    files.append(File.generated(config, "reference/commands.md", content=_INTRODUCTION + "\n".join(_page())))


def _page() -> Iterator[str]:
    for group, commands in groupby(COMMANDS, key=lambda name: COMMANDS[name].group):
        yield f"## {group.capitalize()}\n"
        for name in commands:
            said = _help(name)
            yield f"### scail {name}\n\n{_set(said)}"
            for inner in _commands_in(said):
                yield f"#### scail {name} {inner}\n\n{_set(_help(name, inner))}"


def _help(*words: str) -> str:
    """What it prints, in lines as long as they like to be."""
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with patch.dict(os.environ, COLUMNS="2000"), contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    printed.seek(0)
    return printed.read()


def _commands_in(said: str) -> list[str]:
    found = re.search(r"^usage: .*\{([\w,]+)\}$", said, re.MULTILINE)
    return found[1].split(",") if found else []


def _set(said: str) -> str:
    """The description and its examples, the usage, and each option with its help."""
    boxes = re.findall(r"^╭─ ([\w ]+) ─+╮\n(.*?)^╰", said, re.MULTILINE | re.DOTALL)
    before = said.partition("╭")[0].strip()
    usage = re.search(r"^usage: (.*)$", before, re.MULTILINE)
    description = before.replace(usage[0] if usage else "", "").strip()
    lines = [_prose(description), "", f"```text\n{usage[1] if usage else ''}\n```", ""]
    for title, box in boxes:
        if title != "subcommands":
            lines += _options(box)
    return "\n".join(lines) + "\n"


def _prose(text: str) -> str:
    """Paragraphs, and examples as code."""
    parts = (
        "```sh\n" + re.sub("^  ", "", part, flags=re.MULTILINE) + "\n```" if part.startswith("  ") else _escaped(part)
        for part in text.split("\n\n")
    )
    return "\n\n".join(parts)


def _options(box: str) -> Iterator[str]:
    """A definition list; of a line in the box that begins without a gap the first words are the option."""
    lines = [re.sub(r"^│ (.*?) *│$", r"\1", line) for line in box.splitlines()]
    option = re.compile(r"(-|[A-Z]).*?(?=  |$)")
    begun = False
    for line in lines:
        if found := option.match(line):
            begun = not found[0].startswith("-h,")
            if begun:
                yield f"\n`{found[0]}`\n"
                yield f":   {_escaped(line[found.end() :].strip())}" + "  " * line.rstrip().endswith(".")
        elif begun and line.startswith("    "):
            yield f"    {_escaped(line.strip())}" + "  " * line.rstrip().endswith(".")  # a sentence ends: a new line


def _escaped(text: str) -> str:
    """Markdown outside of backticks means nothing; a page that is named is a link."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = (part if n % 2 else re.sub(r"([*_<>\[\]|])", r"\\\1", part) for n, part in enumerate(parts))
    return re.sub(r"docs/([\w/-]+\.md)", r"[docs/\1](../\1)", "".join(plain))
