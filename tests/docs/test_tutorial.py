"""The tutorial, as a reader would go through it: every command and every piece of Python, in order, in a new folder."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from scail.networks.pretrained import has_pretrained
from tests.docs.reading import blocks, commands, run_line, shown

pytestmark = pytest.mark.skipif(
    not has_pretrained("efficientnet-lite0"), reason="the pretrained weights are not installed"
)

TUTORIAL = "docs/start/tutorial.md"


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """All that was printed."""
    with contextlib.chdir(tmp_path_factory.mktemp("tutorial")), contextlib.redirect_stdout(io.StringIO()) as printed:
        for kind, code in blocks(TUTORIAL):
            if kind == "python":
                exec(code, {})
            for words in commands(code) if kind == "sh" else ():
                run_line(words)
    return printed.getvalue()


def test_every_block_runs_and_the_model_learned_three_times(said):
    assert {kind for kind, _ in blocks(TUTORIAL)} == {"sh", "python", "text"}
    assert "3 classes in 2 state(s), 2 call(s) of learn" in said
    assert "state 1: portrait" in said
    assert said.count("portrait") > 5 and "\tunknown" in said
    assert "group 1: 5 pictures: photos/test/portrait" in said
    assert "'temple' is forgotten" in said and "('flower', 'portrait')" in said


def test_it_learned_something(said):
    (accuracy,) = (float(found) for found in re.findall(r"15 images: top-1 ([\d.]+) %", said))
    assert accuracy > 90  # one in three by chance


def test_what_the_tutorial_shows_is_what_is_printed(said):
    lines = shown(TUTORIAL)
    assert len(lines) >= 5
    for line in lines:
        assert line in said
