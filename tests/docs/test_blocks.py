"""Every code block of the documents: Python is carried out by some test, commands are those of the command line."""

from __future__ import annotations

import re

import pytest

from scail.cli.main import command_of
from scail.cli.parsing import parse
from tests.docs.reading import ROOT, blocks, commands

PAGES = [str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
CARRIED_OUT = {
    "README.md": "test_readme.py",
    "docs/start/tutorial.md": "test_tutorial.py",
    "docs/how-to/own-training-code.md": "test_python.py",
    "docs/how-to/own-method.md": "test_own_methods.py",
    "docs/how-to/serve-and-deploy.md": "../server/test_documented.py",
    "docs/reference/classifier.md": "test_reference.py",
}
"""The test of each page that has Python."""


@pytest.mark.parametrize("page", PAGES)
def test_its_commands_are_understood(page):
    for kind, code in blocks(page):
        for words in commands(code) if kind in ("sh", "bash", "") and "scail " in code else ():
            if "scail" in words and words[0] != "pip":
                name, *options = words[words.index("scail") + 1 :]
                options = [re.sub(r"\$\w+", "1", word) for word in options]
                stop = next((n for n, word in enumerate(options) if word in (">", "|")), len(options))
                assert callable(parse(name, command_of(name), options[:stop])), words


@pytest.mark.parametrize("page", PAGES)
def test_its_python_is_carried_out(page):
    if any(kind == "python" for kind, _ in blocks(page)):
        assert page in CARRIED_OUT
        assert page.rpartition("/")[2] in (ROOT / "tests" / "docs" / CARRIED_OUT[page]).read_text()
