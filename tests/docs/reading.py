"""Documents as a reader goes through them: every piece of Python, every line of shell, in order, in a new folder."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from scail.cli.main import main

ROOT = Path(__file__).parents[2]


def blocks(page: str) -> list[tuple[str, str]]:
    """Kind and content of every fenced block of a document, named from the root."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(code: str) -> list[list[str]]:
    """The words of each line of shell: continued lines are joined, comments are left out."""
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines for part in line.split("; ") if (words := shlex.split(part, comments=True))]


def run_line(words: list[str]) -> None:
    """`scail` in this process, which has imported torch already; anything else in a shell."""
    if words[0] != "scail":
        print(subprocess.run(shlex.join(words), shell=True, check=True, capture_output=True, text=True).stdout)
        return
    target = Path(words[words.index(">") + 1]) if ">" in words else None
    words = words[: words.index(">")] if target else words
    with pytest.raises(SystemExit) as end, contextlib.ExitStack() as stack:
        if target:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(target.open("w"))))
        main(words[1:])
    assert end.value.code == 0, words


def shown(page: str) -> list[str]:
    """The lines that a document shows as printed."""
    return [line for kind, text in blocks(page) if kind == "text" for line in text.splitlines()]
