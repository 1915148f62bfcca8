"""What version 0.1 wrote is still read: runs, grids, kept numbers, models, and the keys of stored states."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scail import IncrementalClassifier, load_dataset
from scail.benchmark.configuration import settle
from scail.benchmark.grid import is_finished, settle_grid
from scail.benchmark.grid_file import file_grid
from scail.benchmark.runner import config_of
from scail.benchmark.trajectory import data_of_state, facts_of, trajectories_in
from scail.cli.main import main
from scail.config import Experiment, Schedule, Schedules
from scail.config.options import RunOptions, experiment_of
from scail.config.recipes import RECIPES
from scail.results.archive import Archive
from scail.storage.entry import key_of

BEFORE = Path(__file__).parent / "data" / "version_0_1"
GRID = """\
dataset: digits
classes: 6
images-per-class: 20
states: [2, 3]
memory: 12
epochs: "2,1"
methods: ft,scail,ft_distill,full
select: herding
precision: 32-true
"""


TRAINED_ANEW = {
    "distill": "its rate goes by the number of outputs, where these are few",
    "bic": "what is held out is drawn at random, and never trained on",
    "e2e": "its exemplars are chosen by herding",
}
"""Trainers whose numbers are others now."""


def record(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _recipe_of_0_1(monkeypatch):
    """The recipe quick with the schedules that it had then; other numbers have other keys."""
    then, now = RECIPES["quick"], record(BEFORE / "recipe-quick.json")
    schedules = Schedules({name: Schedule(**{**values, "milestones": ()}) for name, values in now.items()})

    def quick(dataset: str) -> Experiment:
        found = then(dataset)
        return replace(found, recipe=replace(found.recipe, schedules=schedules))

    monkeypatch.setitem(RECIPES, "quick", quick)


def test_the_same_options_ask_for_the_same_experiment_and_the_states_have_the_same_keys(monkeypatch):
    asked = RunOptions(
        dataset="digits", classes=6, images_per_class=20, states="3", memory="12", epochs="2,1",
        methods="ft,scail,ft_bal,icarl,bic,deesil,e2e,full",
    )  # fmt: skip
    experiment, config = experiment_of(asked), record(BEFORE / "run" / "config.json")
    assert json.loads(json.dumps(experiment.record())) == config["experiment"] | {
        "weights": None, "precision": "auto",  # both are new; the second comes to what it was before
        "own_methods": [], "own_content": [], "few_negatives": False,
    }  # fmt: skip
    known = record(BEFORE / "keys.json")
    states = {key: facts for key, facts in known.items() if "trainer" in facts}
    one = next(facts for facts in states.values() if "select" not in facts)
    solver = next(f["trainer"]["solver"] for f in states.values() if "solver" in f["trainer"])
    monkeypatch.setattr(torch, "__version__", one["torch"])  # as on the machine that wrote them
    monkeypatch.setattr("scail.training.frozen_svm.version", lambda name: solver.removeprefix("scikit-learn "))
    found = {}
    for trajectory in trajectories_in(settle(experiment.but(precision="32-true"))):
        if trajectory.trainer in TRAINED_ANEW:
            continue
        keys: list[str] = []
        for state in trajectory.states:
            data = data_of_state(trajectory.configuration.dataset, state)
            facts = facts_of(trajectory, state, keys, data, tuple(one["device"]))
            keys.append(key_of(facts))
            found[keys[-1]] = json.loads(json.dumps(facts))
    assert found == {key: states.get(key) for key in found}  # the grid made the others


def test_runs_are_reported_and_compared(tmp_path, capsys):
    shutil.copytree(BEFORE / "run", tmp_path / "run")
    for command in (["report", str(tmp_path / "run"), "--formats", "none"], ["paper", str(tmp_path / "run")]):
        with pytest.raises(SystemExit) as end:
            main(command)
        assert end.value.code == 0, capsys.readouterr().err
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for title in (
        "FT, herding exemplars",
        "distillation, herding exemplars",
        "BiC, herding exemplars",
        "DeeSIL, random",
    ):
        assert title in page
    assert "matches no published cell" in capsys.readouterr().out


def test_a_grid_that_was_finished_is_not_run_again(tmp_path, capsys):
    shutil.copytree(BEFORE / "grid", tmp_path / "grid")
    (tmp_path / "small.yaml").write_text(GRID)
    settled = settle_grid(file_grid(tmp_path / "small.yaml", {}), tmp_path / "grid")
    for one in settled.configurations:
        path = one.folder / "config.json"
        now = {"provenance": config_of(one)["provenance"]}  # another machine may have another Python
        path.write_text(json.dumps(record(path) | now))
        assert is_finished(one)
    with pytest.raises(SystemExit) as end:
        main(
            ["grid", str(tmp_path / "small.yaml"), "--out", str(tmp_path / "grid"), "--store", str(tmp_path / "store")]
        )
    assert not end.value.code and "0 configurations were run" in capsys.readouterr().out


def test_kept_numbers_are_known(tmp_path):
    (tmp_path / "small.yaml").write_text(GRID)
    archive = Archive(BEFORE / "results")
    settled = settle_grid(file_grid(tmp_path / "small.yaml", {}), tmp_path / "grid", archive)
    assert [trajectories_in(one) for one in settled.configurations] == [(), ()]
    measured = archive.find(config_of(settled.configurations[0]))
    assert {("ft", "herding"), ("scail", "herding"), ("ft_distill", "herding"), ("full", None)} == measured.pairs


@pytest.mark.parametrize(("method", "top1"), [("bic", 23.3), ("deesil", 89.0)])
def test_models_answer_learn_and_forget(method, top1, tmp_path):
    shutil.copytree(BEFORE / f"model-{method}", tmp_path / "model")
    clf = IncrementalClassifier.load(tmp_path / "model", verbose=False)
    digits = load_dataset("digits")
    names = [digits.class_names[c] for c in digits.test.labels.tolist()]
    rows = [i for i, name in enumerate(names) if name in "0123"]
    found = clf.accuracy(digits.test.images[rows], [names[i] for i in rows])
    assert found["top1"] == pytest.approx(top1, abs=1.5)  # as it said itself; the last bits are the machine's
    more = [i for i, c in enumerate(digits.train.labels.tolist()) if digits.class_names[c] == "4"][:20]
    clf.learn(digits.train.images[more], ["4"] * len(more)).save(tmp_path / "model")
    again = IncrementalClassifier.load(tmp_path / "model", verbose=False).forget("0")
    assert again.classes_ == ("1", "2", "3", "4")
    assert len(again.model_.exemplars.memory) + len(again.model_.held_out.memory) <= 12
