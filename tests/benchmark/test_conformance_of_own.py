"""`scail check`: each rule is broken once, and told with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from scail.benchmark.conformance import Finding, findings_on
from scail.cli.main import main
from scail.methods.own_methods import own_methods

BEGIN = """
import torch
from torch.nn.functional import cross_entropy
from scail import LinearHead, Method, heads
from scail.runtime.seeds import generator_for
from scail.training import FineTune
from scail.training.loop import fit

count = 0


def mean_loss(model, images, labels):
    return cross_entropy(model(images), labels)


def sum_loss(model, images, labels):
    return cross_entropy(model(images), labels, reduction="sum") / 4


def counting_loss(model, images, labels):
    global count
    count += 1
    return mean_loss(model, images, labels) * (1 + count % 7)


class Mine(FineTune):
    title = "mine"

    def train(self, task):
        network = super().train(task) if task.previous is None else self.widened(task, task.previous)
        if task.previous is not None:
            fit(network, task, self.schedule, LOSS)
            with torch.no_grad():
                network.linear.bias += NOISE
        return network

    def settings(self, state):
        return super().settings(state) if state == 0 or not SETTINGS else SETTINGS


METHODS = {"mine": Method("mine", "as it is", heads.ft, Mine, without_memory=True)}
"""


def trainer(place: Path, loss: str = "mean_loss", noise: str = "0", settings: str = "None") -> str:
    path = place / "mine.py"
    path.write_text(BEGIN.replace("LOSS)", f"{loss})").replace("NOISE", noise).replace("SETTINGS", settings))
    return str(path)


def head(place: Path, body: str) -> str:
    text = f"import torch\nfrom scail import LinearHead, Method\ndef head(evidence):\n    {body}\n"
    (place / "mine.py").write_text(text + "METHODS = {'mine': Method('mine', 'as it is', head)}\n")
    return str(place / "mine.py")


def problem(path: str, begins: str, tmp_path: Path) -> str | None:
    """What is found on the first point whose title begins so; what comes after it is not tried."""
    found = (one for one in findings_on(own_methods(path), tmp_path / "states") if begins in one.what)
    return next(found).problem


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return LinearHead(evidence.weight_CD + torch.rand(1), evidence.bias_C)", "other scores the second time"),
        ("evidence.bias_C[0] += 1; return LinearHead(evidence.weight_CD, evidence.bias_C)", "changes the evidence"),
        ("w = evidence.weight_CD; return LinearHead(w, evidence.bias_C / (len(w) - 2))", "are not numbers"),
    ],
)
def test_a_head_is_pure_and_scores_every_class_in_every_state(body, said, tmp_path):
    found = problem(head(tmp_path, body), "mine: pure", tmp_path)
    assert found and said in found and f"{tmp_path / 'mine.py'}, line 5" in found


def test_a_head_that_needs_exemplars_has_to_say_so(tmp_path):
    body = "e = evidence; return LinearHead(e.weight_CD, e.bias_C + e.exemplar_features_ED[0].sum())"
    found = problem(head(tmp_path, body), "without a memory", tmp_path)
    assert found and "IndexError" in found and "say needs_exemplars=True" in found


@pytest.mark.parametrize(
    ("given", "begins", "said"),
    [
        ({"noise": "torch.rand(1)"}, "same seed", "draw every random number from scail.runtime.seeds.generator_for"),
        ({"loss": "counting_loss"}, "same seed", "the same seed gave another network"),
        (
            {"settings": "{'trainer': 'mine'}"},
            "settings has",
            "schedule 'later' changes the network of state 1, and is",
        ),
        ({}, "settings has", None),
    ],
)
def test_a_trainer_is_the_same_twice_and_says_what_decides(given, begins, said, tmp_path):
    found = problem(trainer(tmp_path, **given), begins, tmp_path)
    assert said in found if said else found is None


def test_a_training_that_keeps_something_of_its_own_does_not_go_on(tmp_path):
    """The count begins anew with each state, and so with each interruption."""
    path = trainer(tmp_path, "counting_loss")
    Path(path).write_text(Path(path).read_text().replace("    def train(self, task):", (
        "    def train(self, task):\n        global count\n        count = 0"
    )))  # fmt: skip
    assert problem(path, "same seed", tmp_path) is None
    found = problem(path, "goes on", tmp_path / "again")
    assert found and "a training that was interrupted and went on gave another network" in found


@pytest.mark.soak
def test_a_loss_that_is_a_sum_is_another_one_on_two_ranks(tmp_path):
    found = problem(trainer(tmp_path, "sum_loss"), "same on two ranks", tmp_path)
    assert found and "the loss has to be a mean over the images of its batch" in found


def test_the_command_ends_with_an_error_where_one_fails(tmp_path, capsys, monkeypatch):
    findings = [Finding("one", None), Finding("two", "do this")]
    monkeypatch.setattr("scail.benchmark.conformance.findings_on", lambda own, place: findings)
    path = head(tmp_path, "return LinearHead(evidence.weight_CD, evidence.bias_C)")
    with pytest.raises(SystemExit) as end:
        main(["check", path])
    said = capsys.readouterr()
    assert end.value.code == 2 and "1 check failed, see above" in said.err
    assert said.out.splitlines()[1:] == ["ok    one", "FAIL  two", "      do this"]
