"""Every code block of the documents: commands are those of the command line, and what is not run stands in a table."""

from __future__ import annotations

import re
import tomllib

import pytest

from scail.cli.main import command_of
from scail.cli.parsing import parse
from tests.docs.reading import ROOT, blocks, commands
from tests.docs.scenes import SCENES

PAGES = [str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
RUN = ("sh", "bash", "python")


@pytest.mark.parametrize("page", PAGES)
def test_its_commands_are_understood(page):
    for kind, code in blocks(page):
        for words in commands(code) if kind in ("sh", "bash", "") and "scail " in code else ():
            if "scail" in words and words[0] != "pip":
                name, *options = words[words.index("scail") + 1 :]
                options = [re.sub(r"\$\w+", "1", word) for word in options]
                stop = next((n for n, word in enumerate(options) if word in (">", "|")), len(options))
                assert callable(parse(name, command_of(name), options[:stop])), words


def test_every_page_with_code_has_a_scene_and_a_test():
    assert {page for page in PAGES if any(kind in RUN for kind, _ in blocks(page))} == SCENES.keys()
    gone_through = (ROOT / "tests/docs/test_pages.py").read_text(encoding="utf-8")
    assert [page for page in SCENES if page not in gone_through] == ["docs/results/findings.md"]


def test_extras_that_are_named_can_be_installed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for page in PAGES for name in re.findall(r"scail\[([\w,]+)\]", (ROOT / page).read_text("utf-8"))}
    assert named and named <= extras.keys()
