"""PackNet: what a state keeps, what it leaves as it was, and what happens where nothing is free."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from scail.benchmark.configuration import settle
from scail.networks.network import extract_features
from scail.networks.packed import FREE, packable
from scail.training import Joint, Packnet
from tests.training.test_trainers import SCHEDULE, task_of

RETRAINING = replace(SCHEDULE, epochs=2)


def packnet(pruned=None):
    return Packnet(Joint("resnet8", SCHEDULE), replace(SCHEDULE, pruned=pruned), RETRAINING)


def counts(network):
    """For each layer, how many weights are free, of state 1, of state 2, ..."""
    return {name: torch.bincount(o.flatten().long()).tolist() for name, o in network.backbone.owner_of.items()}


@pytest.fixture(scope="module")
def first():
    return packnet().train(task_of([], [9, 9]))


@pytest.fixture(scope="module")
def second(first):
    return packnet().train(task_of(past=[0, 0], new=[8, 8, 8], previous=first))


def test_each_state_keeps_a_quarter_of_what_is_free_in_each_layer(first, second):
    assert counts(first)["conv1.weight"] == [108, 36] and counts(second)["conv1.weight"] == [81, 36, 27]
    assert counts(second)["stages.2.0.conv2.weight"] == [20736, 9216, 6912]
    half = counts(packnet(pruned=0.5).train(task_of([], [9, 9])))
    assert half["conv1.weight"] == [72, 72]


def test_free_weights_are_zero_and_those_of_before_and_norms_stay_to_the_bit(first, second):
    then, now = (packable(network.backbone.shared) for network in (first, second))
    for name, owner in second.backbone.owner_of.items():
        assert not now[name][owner == FREE].any()
        assert torch.equal(now[name][owner == 1], then[name][owner == 1])
        assert now[name][owner == 2].any() and not then[name][owner == 2].any()
    others = set(second.state_dict()) - {f"backbone.shared.{name}" for name in now}
    for name in others:
        if ".shared." in name:
            assert torch.equal(second.state_dict()[name], first.state_dict()[name]), name


def test_features_and_rows_of_before_stay_to_the_bit_and_new_rows_see_their_own(first, second):
    images = task_of([], [5]).images
    assert torch.equal(extract_features(second, images)[:, :64], extract_features(first, images))
    weight = second.linear.weight
    assert torch.equal(weight[:2, :64], first.linear.weight) and not weight[:2, 64:].any()
    assert not weight[2:, :64].any() and weight[2:, 64:].any() and weight.shape == (5, 128)


def test_exemplars_are_not_trained_on(first, second):
    with_them = packnet().train(replace(task_of(past=[0, 0], new=[8, 8, 8], previous=first), budget=6))
    assert torch.equal(with_them.linear.weight, second.linear.weight)


def test_where_nothing_is_free_it_says_so_before_it_trains(first):
    full = packnet(pruned=0.0).train(task_of([], [9, 9]))
    with pytest.raises(ValueError, match=r"no capacity left for state 1: 7 of 7 layers .* 0 % is free, and each state"):
        packnet(pruned=0.0).train(task_of(past=[0, 0], new=[8], previous=full))


def test_more_images_of_known_classes_teach_their_rows_and_nothing_else(second):
    after = packnet().train(task_of(past=[6, 6, 6, 6, 6], new=[], previous=second))
    moved = [name for name, value in after.state_dict().items() if not torch.equal(value, second.state_dict()[name])]
    assert moved == ["linear.weight", "linear.bias"]
    assert torch.equal(after.linear.weight == 0, second.linear.weight == 0)


def test_a_lesson_may_have_both(second):
    after = packnet().train(task_of(past=[6] * 5, new=[8], previous=second))
    assert after.feature_size == 3 * 64 and after.linear.out_features == 6
    assert not torch.equal(after.linear.weight[:5, :128], second.linear.weight)


def test_a_later_state_of_one_class_is_an_error_whatever_the_memory_of_others(tiny):
    with pytest.raises(ValueError, match="method packnet: in state 1 only one class is at hand, and it needs two"):
        settle(tiny.but(first_state=3, states=4, methods=("ft", "packnet")))
    assert "packnet" not in settle(tiny.but(first_state=3, states=4)).methods


def test_images_of_new_classes_alone_are_counted():
    assert packnet().passes(1, (5, 5, 10), 2, (0, 0)) == 10 * (1 + 2)
    assert packnet().settings(1) != packnet(pruned=0.5).settings(1) and "pruned" in packnet().settings(0)
