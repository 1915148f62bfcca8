"""The pages on own methods and own training code: their pieces together, quickly (whole: test_pages.py)."""

from __future__ import annotations

import contextlib
import json
import re
import runpy
from pathlib import Path

import pytest

from scail.cli.main import main
from tests.docs.reading import blocks

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-method.md"
HEAD, _, SELECTION, TRAINER = (code for kind, code in blocks("docs/how-to/own-method.md") if kind == "python")
LOOP = [code for kind, code in blocks("docs/how-to/own-training-code.md") if kind == "python"][-1]
SMALL = ("--dataset", "digits", "--classes", "6", "--images-per-class", "20", "--states", "3", "--memory", "12")


def scail(*arguments: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    assert end.value.code == 0


def test_they_are_as_short_as_they_are_said_to_be():
    assert [len(code.splitlines()) for code in (HEAD, TRAINER)] == [10, 30]
    assert len(LOOP.splitlines()) < 50


@pytest.mark.soak
def test_the_first_head_selection_and_trainer_run_together(tmp_path, undrawn, capsys):
    names = ("half", "scail_near", "lwf_ce")
    for name, code in zip(names, (HEAD, SELECTION, TRAINER), strict=True):
        (tmp_path / f"{name}.py").write_text(code)
    files = ",".join(str(tmp_path / f"{name}.py") for name in names)
    asked = ",".join((*names, "ft:nearest"))
    scail("run", *SMALL, "--epochs", 1, "--with", files, "--methods", asked, "--out", tmp_path / "run", "--jobs", 1)
    said = capsys.readouterr().out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    found = {(one["method"], one["select"]) for one in summary["methods"]}
    assert found == {
        ("half", "random"), ("half", "herding"), ("scail_near", "nearest"), ("ft", "nearest"), ("lwf_ce", None),
    }  # fmt: skip
    assert "half*" in said and "nearest" in said and "LwF^CE*" in (tmp_path / "run" / "table.md").read_text()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "FT, nearest exemplars" in page and '"own":["half","lwf_ce","scail_near"]' in page.replace(" ", "")


def test_the_loop_runs_and_learns(tmp_path, capsys):
    (tmp_path / "loop.py").write_text(LOOP)
    runpy.run_path(str(tmp_path / "loop.py"))
    found = [float(number) for number in re.findall(r"([\d.]+) %", capsys.readouterr().out)]
    assert len(found) == 3 and min(found) > 85


def test_the_message_that_is_shown_is_the_one_that_is_printed(tmp_path, capsys):
    (tmp_path / "my_method.py").write_text(HEAD.replace("LinearHead(weight,", "LinearHead(weight[:2],"))
    with pytest.raises(SystemExit) as end, contextlib.chdir(tmp_path):
        main(["run", "--with", "my_method.py", "--store", str(tmp_path / "store")])
    assert end.value.code == 2
    (shown,) = re.findall(r"^```text\n(.*)\n```$", PAGE.read_text(), re.M)
    assert shown in capsys.readouterr().err and not (tmp_path / "store").exists()
