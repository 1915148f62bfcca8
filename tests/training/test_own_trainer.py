"""A new trainer: its own file (here), one line in the table, its numbers in a recipe. Everything else follows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
import pytest
import torch

from scail import IncrementalClassifier, heads
from scail.benchmark.runner import run_experiment
from scail.config import Schedule
from scail.methods import METHODS, Method
from scail.networks.network import Network
from scail.report.write import write_report
from scail.results.archive import Archive
from scail.runtime.seeds import generator_for
from scail.training import TRAINERS, Joint, Task, Trained, Trainer
from scail.training.loop import LOOP_VERSION, fit
from scail.training.trainer import check_shapes


@dataclass(frozen=True)
class LayerOnly(Trainer):
    """State 0 as in `Joint`; then only the linear layer moves. It counts how often each class was trained."""

    title = "layer only"
    schedules = ("first", "layer")
    first: Joint
    schedule: Schedule

    @classmethod
    def of(cls, recipe, schedules, total_classes) -> Self:
        return cls(Joint.of(recipe, schedules, total_classes), schedules["layer"])

    def train(self, task: Task) -> Network:
        if task.previous is None:
            return self.first.train(task)
        network = task.previous.clone()
        network.recreate_linear(task.num_classes, generator_for(task.seed, "linear", task.state), keep_past=True)
        network.backbone.requires_grad_(False)
        fit(network, task, self.schedule)
        network.backbone.requires_grad_(True)
        return network

    def epochs(self, state: int, images: int) -> int:
        return self.schedule.epochs if state else self.first.epochs(state, images)

    def settings(self, state: int) -> dict[str, object]:
        if state == 0:
            return self.first.settings(state)
        return {"trainer": "layer_only", "loop": LOOP_VERSION, "schedule": asdict(self.schedule)}

    def complete(self, trained: Trained, task: Task) -> dict[str, torch.Tensor]:
        before = task.carried.get("times", torch.zeros(0))
        return {"times": torch.cat([before, torch.zeros(task.num_classes - len(before))]) + 1}

    @classmethod
    def check_carried(cls, carried, classes, features) -> None:
        check_shapes(carried, {"times": (classes,)})

    @classmethod
    def without_class(cls, carried, label):
        return {"times": carried["times"][torch.arange(len(carried["times"])) != label]}


@pytest.fixture
def experiment(tiny, monkeypatch):
    monkeypatch.setitem(TRAINERS, "layer_only", LayerOnly)
    monkeypatch.setitem(METHODS, "mine", Method("mine", "the layer alone", heads.ft, "layer_only", in_paper=False))
    return tiny.but(methods=("mine",), select=("random",), layer_schedule=Schedule(epochs=3, lr=0.1, batch_size=16))


def test_it_is_run_measured_reported_and_kept(experiment, tmp_path):
    out = tmp_path / "run"
    results = run_experiment(experiment, out, store=tmp_path / "store", jobs=1)
    assert [row.trained_epochs for row in results.rows] == [2, 3, 3]
    config = json.loads((out / "config.json").read_text())
    (line,) = config["lines"]
    assert (line["title"], line["schedules"]) == ("layer only, random exemplars", ["first", "layer"])
    assert "layer only, random exemplars" in write_report([out], tmp_path / "page", []).read_text(encoding="utf-8")
    archive = Archive(tmp_path / "kept")
    archive.add(config, results.rows, 1.0)
    assert archive.find(config).pairs == {("mine", "random")}
    # Another trainer's schedule makes no difference to it, its own does.
    for name, known in (("later", True), ("layer", False)):
        other = {**config["experiment"][f"{name}_schedule"], "epochs": 9}
        asked = {**config, "experiment": {**config["experiment"], f"{name}_schedule": other}}
        assert (("mine", "random") in archive.find(asked).pairs) == known
    again = run_experiment(experiment, tmp_path / "again", store=tmp_path / "store", jobs=1)
    assert [row.trained_epochs for row in again.rows] == [0, 0, 0]


def test_it_keeps_learning_and_forgets(experiment, tmp_path):
    images = np.random.RandomState(0).randint(0, 255, (24, 8, 8), dtype=np.uint8)
    clf = IncrementalClassifier(8, "mine", recipe=experiment, mirror=False, accelerator="cpu", verbose=False)
    clf.learn(images[:16], list("aaaaaaaabbbbbbbb")).learn(images[16:], list("cccccccc"))
    assert clf.model_.learned.carried["times"].tolist() == [2, 2, 1]
    clf.save(tmp_path / "model")
    read = IncrementalClassifier.load(tmp_path / "model", verbose=False).forget("b")
    assert read.model_.learned.carried["times"].tolist() == [2, 1]
    assert read.predict(images).shape == (24,)


def test_a_recipe_without_its_schedule_is_a_clear_error(experiment, tiny, tmp_path):
    bare = tiny.but(methods=("mine",))
    with pytest.raises(ValueError, match="recipe quick has no schedule 'layer', which layer only needs"):
        run_experiment(bare, tmp_path / "run", store=tmp_path / "store", jobs=1)
