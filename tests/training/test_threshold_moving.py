"""Threshold moving: loss, mass and head by hand; a bad temperature is told."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from scail import heads
from scail.config.recipes import quick
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training import ThresholdMoving, Trained, trainer_of
from scail.training.threshold_moving import softened_loss
from tests.heads.evidence import make_evidence
from tests.training.test_trainers import CLASSIFICATION, IMAGE, LABEL, SCHEDULE, STUDENT, TEACHER, Fixed, task_of

TRAINER = ThresholdMoving("resnet8", replace(SCHEDULE, distillation=(0.5, 2.0)))


def test_distillation_counts_as_much_as_its_weight_times_the_squared_temperature():
    # At 2 the past outputs are (ln 3, 0) against (0, 0): softmax (3, 1) / 4 against halves, 2 ln 2 - ln 3 / 2.
    # At 1 they are (2 ln 3, 0): (9, 1) / 10 against halves, ln 10 - ln 3.
    for temperature, distillation in ((2.0, 2 * math.log(2) - math.log(3) / 2), (1.0, math.log(10) - math.log(3))):
        loss = softened_loss(Fixed(TEACHER), 0.5, temperature, Fixed(STUDENT), IMAGE, LABEL)
        assert loss.item() == pytest.approx(CLASSIFICATION + 0.5 * temperature**2 * distillation)


def teacher_that_says(scores):
    """A network of one feature that is always 1: its biases are what it says."""

    class One(nn.Module):
        def forward(self, pixels):
            return torch.ones(len(pixels), 1)

    network = Network("one", One(), 1, 1, len(scores))
    network.recreate_linear(len(scores), generator_for(0, "one"))
    with torch.no_grad():
        network.linear.weight.zero_()
        network.linear.bias.copy_(torch.tensor(scores))
    return network


def test_the_mass_of_a_class_is_its_labels_and_what_the_teacher_says_of_all_images():
    # Two exemplars of class 0, none of class 1, six images of class 2. At temperature 2 the teacher says 3/4 and 1/4 of
    # each of eight images, which counts 0.5 * 4 as much: 12 and 4.
    task = task_of(past=[2, 0], new=[6], previous=teacher_that_says([2 * math.log(3), 0.0]))
    none = torch.empty(0, dtype=torch.int64)
    trained = Trained(teacher_that_says([0.0] * 3), none, none, none, none, torch.zeros(8, 1))
    assert TRAINER.complete(trained, task)["mass_C"].tolist() == pytest.approx([2 + 12, 4, 6])
    # State 0 has labels alone; a class that has nothing counts as one image.
    first = task_of(past=[], new=[3, 0, 5])
    assert TRAINER.complete(trained, first)["mass_C"].tolist() == [3, 1, 5]


def test_probabilities_are_divided_by_the_mass():
    evidence = make_evidence([[1, 0], [0, 1], [1, 1]], [0.5, 0, -1], [[0, 0]] * 3, [0] * 3, [0, 0, 1])
    mass_C = torch.tensor([14.0, 4.0, 7.0])
    features = torch.tensor([[0.3, 2.0], [1.0, -1.0]])
    found = heads.threshold_moving(evidence, mass_C).scores(features).softmax(1)
    divided = heads.ft(evidence).scores(features).softmax(1) / mass_C
    torch.testing.assert_close(found, divided / divided.sum(1, keepdim=True))


def test_a_forgotten_class_takes_its_mass_with_it_and_strange_masses_are_an_error():
    carried = {"mass_C": torch.tensor([14.0, 4.0, 7.0])}
    assert ThresholdMoving.without_class(carried, 1)["mass_C"].tolist() == [14, 7]
    ThresholdMoving.check_carried(carried, 3, 9)
    for wrong, message in (({}, "has no mass_C"), ({"mass_C": torch.ones(2)}, "expected"), (
        {"mass_C": torch.tensor([1.0, 0.5, 1.0])}, "numbers of 1 or more",
    )):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            ThresholdMoving.check_carried(wrong, 3, 9)


def test_a_temperature_of_zero_is_an_error():
    schedules = quick("digits").recipe.schedules.but([("threshold_moving", "distillation", (1.0, 0.0))])
    with pytest.raises(ValueError, match="temperature 0, expected a number above 0"):
        trainer_of(ThresholdMoving, quick("digits").recipe, schedules, None)


def test_past_rows_go_on_and_every_image_is_taught():
    first = TRAINER.train(task_of([], [9, 9]))
    still = replace(TRAINER, schedule=replace(TRAINER.schedule, lr=1e-12, weight_decay=0.0))
    after = still.train(task_of(past=[3, 3], new=[8], budget=6, previous=first))
    torch.testing.assert_close(after.linear.weight[:2], first.linear.weight)
    assert after.linear.out_features == 3
