"""Progressive networks: what a state adds, and what it leaves as it was."""

from __future__ import annotations

import torch

from scail.networks.columns import Columns
from scail.networks.network import extract_features
from scail.training import Joint, Progressive
from tests.training.test_trainers import SCHEDULE, network_for, task_of

PROGRESSIVE = Progressive(Joint("resnet8", SCHEDULE), SCHEDULE)


def test_a_column_is_added_and_those_before_stay_to_the_bit():
    before = network_for(2)
    after = PROGRESSIVE.train(task_of(past=[0, 0], new=[8, 8], previous=before))
    assert isinstance(after.backbone, Columns) and after.feature_size == 128
    images = task_of([], [5]).images
    assert torch.equal(extract_features(after, images)[:, :64], extract_features(before, images))
    weight = after.linear.weight
    assert torch.equal(weight[:2, :64], before.linear.weight) and not weight[:2, 64:].any()
    assert not weight[2:, :64].any() and weight[2:, 64:].any()
    third = PROGRESSIVE.train(task_of(past=[0] * 4, new=[8], previous=after))
    assert torch.equal(extract_features(third, images)[:, :128], extract_features(after, images))
    assert len(third.backbone.adapters) == 2


def test_a_column_begins_fresh_but_where_weights_were_given_as_the_first_one(monkeypatch):
    monkeypatch.setattr("scail.training.progressive.fit", lambda *given: None)
    before, task = network_for(2), task_of(past=[0, 0], new=[8], previous=network_for(2))
    fresh = PROGRESSIVE.train(task).backbone.parts[1]
    given = Progressive(Joint("resnet8", SCHEDULE, weights="abc"), SCHEDULE).train(task).backbone.parts[1]
    assert torch.equal(given.conv1.weight, before.backbone.conv1.weight)
    assert not torch.equal(fresh.conv1.weight, before.backbone.conv1.weight)


def test_more_images_of_known_classes_teach_their_rows_and_nothing_else():
    before = PROGRESSIVE.train(task_of(past=[0, 0], new=[8, 8], previous=network_for(2)))
    for network in (before, network_for(4)):  # after state 0 there is one column
        after = PROGRESSIVE.train(task_of(past=[6] * 4, new=[], previous=network))
        moved = [n for n, value in after.state_dict().items() if not torch.equal(value, network.state_dict()[n])]
        assert moved == ["linear.weight", "linear.bias"]


def test_state_0_is_the_plain_one_and_images_of_new_classes_alone_are_counted():
    assert PROGRESSIVE.settings(0) == PROGRESSIVE.first.settings(0) != PROGRESSIVE.settings(1)
    assert PROGRESSIVE.passes(1, (5, 5, 10), 2, (0, 0)) == 10
