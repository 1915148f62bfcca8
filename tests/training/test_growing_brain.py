"""Growing a Brain: how wide the top gets, and that everything goes on learning."""

from __future__ import annotations

import torch

from scail.training import GrowingBrain, Joint
from tests.training.test_trainers import SCHEDULE, network_for, task_of

BRAIN = GrowingBrain(Joint("resnet8", SCHEDULE), SCHEDULE)


def test_each_state_adds_half_as_many_units_as_there_were_at_first_and_all_of_it_learns():
    before = network_for(2)
    second = BRAIN.train(task_of(past=[3, 3], new=[8, 8], previous=before))
    third = BRAIN.train(task_of(past=[3] * 4, new=[8], previous=second))
    assert (second.feature_size, third.feature_size) == (64 + 32, 64 + 32 + 32)
    assert second.linear.weight.shape == (4, 96) and third.linear.weight.shape == (5, 128)
    then, now = second.state_dict(), third.state_dict()
    for name in ("backbone.trunk.conv1.weight", "backbone.tops.0.0.0.conv1.weight", "linear.weight"):
        assert now[name].shape != then[name].shape or not torch.equal(now[name], then[name])
    assert not torch.equal(now["backbone.scales"], torch.full((3,), 10.0))


def test_without_new_classes_nothing_grows_and_labels_are_learned():
    before = BRAIN.train(task_of(past=[3, 3], new=[8, 8], previous=network_for(2)))
    after = BRAIN.train(task_of(past=[6] * 4, new=[], previous=before))
    assert after.feature_size == before.feature_size
    assert not torch.equal(after.linear.weight, before.linear.weight)


def test_state_0_is_the_plain_one():
    assert BRAIN.settings(0) == BRAIN.first.settings(0) != BRAIN.settings(1)
