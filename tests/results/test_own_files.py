"""A run's folder carries a mark; nothing in it, or in any other folder, that scail did not write is removed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from scail.cli.main import main
from scail.results.marks import marks_of
from scail.results.run_directory import RunDirectory
from tests.report.report_runs import config_for, make_run

BEFORE = Path(__file__).parents[1] / "data" / "version_0_1"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def language_model(folder: Path) -> Path:
    """Another tool's folder, with names that a run has, too."""
    for name in ("config.json", "logs/run-1/events.out.tfevents.1", "figures/accuracy.png", "tables/table.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"theirs: {name}")
    theirs = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "seeds": [1], "memory": 5, "cells": []}
    (folder / "config.json").write_text(json.dumps(theirs))
    return folder


def begin(folder: Path, **changes) -> None:
    run = RunDirectory(folder)
    run.begin(config_for((2, 2), **changes))
    run.end()


def call(capsys, *arguments: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0), capsys.readouterr().err


def test_the_folder_of_another_tool_is_left_as_it_is(tmp_path, capsys):
    theirs = language_model(tmp_path / "llama")
    before = files_of(theirs)
    with pytest.raises(ValueError, match=r"holds files that are not a scail run"):
        begin(theirs)
    code, said = call(capsys, "report", make_run(tmp_path / "run"), "--out", theirs, "--formats", "none")
    assert code == 2 and "holds files that are not a scail run or report" in said
    assert files_of(theirs) == before


@pytest.mark.parametrize("content", ["{}", '{"cells": 3}', "no JSON", "[" * 100_000])
def test_names_alone_say_nothing(tmp_path, capsys, content):
    for name in ("config.json", "grid.json", "report.html"):
        theirs = tmp_path / name.partition(".")[0]
        theirs.mkdir()
        (theirs / name).write_text(content)
        with pytest.raises(ValueError, match="not a scail run"):
            begin(theirs)
        (tmp_path / "own.yaml").write_text("dataset: digits\nmethods: ft\nstates: 2\n")
        code, said = call(capsys, "grid", tmp_path / "own.yaml", "--out", theirs)
        assert code == 2 and "not a scail grid" in said
        assert files_of(theirs) == {name: content.encode()}


@pytest.mark.parametrize("name", ["config.json", "grid.json", "report.html"])
def test_a_pipe_with_the_name_of_a_mark_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert not marks_of(tmp_path)


def test_what_others_put_into_a_runs_folder_stays(tmp_path):
    run = make_run(tmp_path / "run")
    theirs = {
        "notes.txt": b"1", "figures/mine.png": b"2", "figures/accuracy.txt": b"3", "tables/thesis.tex": b"4",
        "logs/mlflow.db": b"5", "logs/FT/weights.bin": b"6", "exemplars/x/cat.png": b"7", "seed-9/notes.txt": b"8",
    }  # fmt: skip
    ours = ("figures/accuracy.png", "tables/table.md", "logs/FT/events.out.tfevents.1.host.2", "report.html")
    for name, content in [*theirs.items(), *((name, b"ours") for name in ours)]:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(content)
    np.savez(run / "confusion" / "mine.npz", other=np.zeros(2))
    theirs["confusion/mine.npz"] = (run / "confusion" / "mine.npz").read_bytes()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "state_0.png").write_bytes(b"9")
    (run / "figures" / "linked.txt").symlink_to(tmp_path / "elsewhere" / "state_0.png")
    begin(run, seed=7)
    now = files_of(run)
    lines = {name for name in now if name.endswith(".jsonl")}
    assert {name: now[name] for name in theirs} == theirs
    assert now.keys() - theirs.keys() - lines == {"config.json", ".lock", "figures/linked.txt"}
    assert (tmp_path / "elsewhere" / "state_0.png").exists()


def test_nothing_is_written_or_removed_through_a_link(tmp_path, capsys):
    """A run that is begun again would add to the matrices of another one."""
    other = make_run(tmp_path / "other")
    for name, inner in (("confusion", ""), ("confusion", "ft-random.npz"), ("figures", ""), ("exemplars", "x")):
        run = make_run(tmp_path / f"run-{name}-{inner}")
        place = run / name / inner
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)
        for made in (other / "figures", other / "exemplars" / "x", run / "exemplars"):
            made.mkdir(parents=True, exist_ok=True)
        place.symlink_to(other / name / inner)
        before = files_of(other)
        with pytest.raises(ValueError, match=f"{name}.* is a link; remove it, or give another directory"):
            begin(run)
        code, said = call(capsys, "report", other, "--out", run)
        assert code == 2 and "is a link" in said and files_of(other) == before


def test_all_that_runs_and_reports_write_is_known(tmp_path, undrawn, capsys):
    """So that nothing of a run before is taken for one of this run."""
    runs = [make_run(tmp_path / "a", thumbnail=b"png"), make_run(tmp_path / "b", memory=10)]
    for place in (runs[0], tmp_path):  # a grid has no mark in this test: --out says where
        more = () if place == runs[0] else ("--out", runs[0])
        assert call(capsys, "report", place, *more)[0] == 0
    assert {"figures", "tables", "exemplars"} < {path.name for path in runs[0].iterdir()}
    begin(runs[0], seed=9)
    left = {path.name for path in runs[0].iterdir()}
    assert left == {
        ".lock", "config.json", "confusion", "results.jsonl", "classes.jsonl", "weights.jsonl", "memory.jsonl",
        "timing.jsonl",
    }  # fmt: skip


@pytest.mark.parametrize("place", ["run", "grid/digits-z2-b12-seed1"])
def test_runs_of_version_0_1_are_known(tmp_path, place):
    shutil.copytree(BEFORE / place, tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    begin(tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists() and (tmp_path / "run" / "notes.txt").exists()
    assert not (tmp_path / "run" / "exemplars").exists() and not [*(tmp_path / "run" / "confusion").iterdir()]


def test_the_seeds_of_a_run_go_and_other_folders_of_such_names_stay(tmp_path):
    several = RunDirectory(tmp_path / "runs")
    several.begin({"seeds": [1, 2], "configurations": "seed-*/"})
    several.end()
    for n in (1, 2):
        make_run(tmp_path / "runs" / f"seed-{n}", seed=n)
    (tmp_path / "runs" / "seed-2" / "notes.txt").write_text("mine")
    language_model(tmp_path / "runs" / "seed-3")
    before = files_of(tmp_path / "runs" / "seed-3")
    begin(tmp_path / "runs")
    assert not (tmp_path / "runs" / "seed-1").exists()
    assert files_of(tmp_path / "runs" / "seed-2") == {"notes.txt": b"mine"}
    assert files_of(tmp_path / "runs" / "seed-3") == before


@pytest.mark.parametrize("left", [["confusion/"], [".config.json.4711"], [".lock", "confusion/", ".config.json.4711"]])
def test_a_folder_that_was_begun_and_never_marked_is_begun_again(tmp_path, left):
    """As version 0.1 left it when it was killed at its very start."""
    for name in left:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text("")
    begin(tmp_path)
    assert (tmp_path / "config.json").is_file()


@pytest.mark.parametrize("left", [[], [".grid.json.4711"], [".lock", f".scail-grid.json.{'0' * 32}"]])
def test_a_grid_that_was_begun_and_never_marked_is_begun_again(tmp_path, left, undrawn, capsys):
    (tmp_path / "own.yaml").write_text("dataset: digits\nmethods: ncm\nstates: 2\nclasses: 2\nimages_per_class: 4\n")
    (tmp_path / "grid").mkdir()
    for name in left:
        (tmp_path / "grid" / name).write_text("")
    places = ("--out", tmp_path / "grid", "--store", tmp_path / "store")
    code, said = call(capsys, "grid", tmp_path / "own.yaml", *places, "--jobs", "1")
    assert code == 0 and (tmp_path / "grid" / "grid.json").is_file(), said


def test_halves_that_a_kill_left_go_with_the_next_run(tmp_path):
    run = make_run(tmp_path / "run")
    for place in ("figures", "tables", "exemplars/fine_tune"):
        (run / place).mkdir(parents=True, exist_ok=True)
        (run / place / f".scail-x.{'0' * 32}").write_text("half")
    begin(run, seed=7)
    assert not [*run.rglob(".scail-*")]


def test_what_is_in_the_way_is_not_taken_for_a_begun_run(tmp_path):
    (tmp_path / "confusion").mkdir()
    (tmp_path / "confusion" / "theirs.npz").write_text("theirs")
    with pytest.raises(ValueError, match=r"holds files that are not a scail run"):
        begin(tmp_path)


def test_the_mark_comes_before_all_else(tmp_path, monkeypatch):
    """So that a run that is killed at any moment can be begun again."""
    made = list[str]()
    real = Path.mkdir

    def noted(path: Path, *given, **named) -> None:
        made.append(f"{path.name}, config.json {'is' if (path.parent / 'config.json').exists() else 'is not'} there")
        real(path, *given, **named)

    monkeypatch.setattr(Path, "mkdir", noted)
    begin(tmp_path / "run")
    assert "confusion, config.json is there" in made
