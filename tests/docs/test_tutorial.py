"""The tutorial, as a reader would go through it: every command and every piece of Python, in order, in a new folder."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from scail.cli.main import main
from scail.networks.pretrained import has_pretrained

pytestmark = pytest.mark.skipif(
    not has_pretrained("efficientnet-lite0"), reason="the pretrained weights are not installed"
)

TUTORIAL = Path(__file__).parents[2] / "docs" / "start" / "tutorial.md"


def blocks() -> list[tuple[str, str]]:
    """Kind and content of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run_line(line: str) -> None:
    """A line of shell: scail in this process, which has imported torch already; anything else in a shell."""
    words = shlex.split(line)
    if words[0] != "scail":
        print(subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout)
        return
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], Path(words[words.index(">") + 1])
    with pytest.raises(SystemExit) as end, contextlib.ExitStack() as stack:
        if target:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(target.open("w"))))
        main(words[1:])
    assert end.value.code == 0, line


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """All that was printed."""
    with contextlib.chdir(tmp_path_factory.mktemp("tutorial")), contextlib.redirect_stdout(io.StringIO()) as printed:
        for kind, code in blocks():
            if kind == "python":
                exec(code, {})
            elif kind == "sh":
                for line in code.splitlines():
                    run_line(line)
    return printed.getvalue()


def test_every_block_runs_and_the_model_learned_twice(said):
    assert {kind for kind, _ in blocks()} == {"sh", "python", "text"}
    assert "3 classes in 2 state(s), 2 call(s) of learn" in said
    assert "state 1: portrait" in said
    assert said.count("portrait") > 5 and "\tunknown" in said
    assert "group 1: 5 pictures: pictures/test/portrait" in said
    assert "'temple' is forgotten" in said and "('flower', 'portrait')" in said


def test_it_learned_something(said):
    accuracies = [float(found) for found in re.findall(r"15 images: top-1 ([\d.]+) %", said)]
    assert len(accuracies) == 2 and min(accuracies) > 90  # one in three by chance


def test_what_the_tutorial_shows_is_what_is_printed(said):
    """The lines shown are printed like that, but for times, which are the machine's."""
    printed = re.sub(r"about .*", "about", said)
    shown = [line for kind, text in blocks() if kind == "text" for line in text.splitlines()]
    assert len(shown) >= 5
    for line in shown:
        assert re.sub(r"about .*", "about", line) in printed
