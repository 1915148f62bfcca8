"""DER: its losses by hand, and what each of its two steps moves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from scail.config import Schedule
from scail.config.recipes import quick
from scail.networks.network import extract_features
from scail.training import Der, Joint, der
from scail.training.balanced import balanced_rows
from scail.training.der import WithAuxiliary, expanded_loss, softened_cross_entropy
from tests.training.test_trainers import SCHEDULE, Fixed, network_for, task_of

CLASSIFIER = replace(SCHEDULE, epochs=2)
DER = Der(Joint("resnet8", SCHEDULE), SCHEDULE, CLASSIFIER)
LN2, LN3 = math.log(2), math.log(3)


def test_to_the_auxiliary_classifier_all_past_classes_are_one():
    # Two past classes, two new ones: four scores, then three auxiliary ones (past, class 2, class 3).
    scores = [[0.0, 0, 0, LN3, LN2, 0, 0], [LN2, 0, 0, 0, 0, 0, LN2]]
    # Image 0 is of class 1, image 1 of class 3. The layer gives them 1/6 and 1/5, the auxiliary one 2/4 and 2/4.
    found = expanded_loss(2, 4, Fixed(scores), torch.zeros(2), torch.tensor([1, 3]))
    assert found.item() == pytest.approx((math.log(6) + math.log(5)) / 2 + LN2)


def test_the_last_step_divides_scores_by_the_temperature():
    # (5 ln 3, 0) / 5: three to one.
    assert softened_cross_entropy(5.0, Fixed([[5 * LN3, 0.0]]), torch.zeros(1), torch.tensor([0])).item() == (
        pytest.approx(math.log(4 / 3))
    )


def test_the_auxiliary_layer_sees_the_newest_features_only():
    layer, auxiliary = nn.Linear(4, 2, bias=False), nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 1]]))
        auxiliary.weight.copy_(torch.tensor([[1.0, 10.0]]))
    both = WithAuxiliary(layer, auxiliary)
    assert both(torch.tensor([[1.0, 2, 3, 4]])).tolist() == [[1, 9, 43]]
    assert len(list(both.parameters())) == 2 and both.weight is layer.weight


def test_the_extractors_of_before_stay_to_the_bit_and_a_new_one_is_trained():
    before = network_for(2)
    task = task_of(past=[3, 3], new=[7, 7], budget=6, previous=before)
    after = DER.train(task)
    assert after.linear.out_features == 4 and after.feature_size == 2 * before.feature_size
    features, old = (extract_features(network, task.images) for network in (after, before))
    assert torch.equal(features[:, :64], old) and not torch.equal(features[:, 64:], old)
    assert set(after.state_dict()) == {
        *(f"backbone.parts.{n}.{name}" for n in (0, 1) for name in before.backbone.state_dict()),
        "linear.weight", "linear.bias", "mean", "std",
    }  # fmt: skip
    third = DER.train(task_of(past=[3] * 4, new=[7], budget=12, previous=after))
    assert third.feature_size == 3 * 64
    assert torch.equal(extract_features(third, task.images)[:, :128], features)


def test_the_last_step_trains_a_new_layer_alone_on_balanced_images(monkeypatch):
    calls = []

    def fit(network, task, schedule, loss=None, stage="training"):
        calls.append((stage, task, schedule, {p.shape for p in network.parameters() if p.requires_grad}))

    monkeypatch.setattr(der, "fit", fit)
    task = task_of(past=[3, 2], new=[7, 7], budget=6, previous=network_for(2))
    DER.train(task)
    (_, first, schedule, moving), (stage, second, other, layer) = calls
    assert first is task and schedule is SCHEDULE and (3, 64) in moving  # past, and two new ones
    assert stage == "classifier" and other is CLASSIFIER and layer == {(4, 128), (4,)}
    assert torch.equal(second.labels, task.labels[balanced_rows(task)])


def test_without_new_classes_nothing_grows_and_labels_are_learned():
    before = network_for(2)
    after = DER.train(task_of(past=[6, 6], new=[], budget=12, previous=before))
    assert after.feature_size == before.feature_size
    assert not torch.equal(after.linear.weight, before.linear.weight)


def test_state_0_is_that_of_fine_tuning_where_their_schedules_are_the_same():
    recipe = quick("digits").recipe
    made = Der.of(recipe, recipe.schedules, None)
    assert made.settings(0) == Joint.of(recipe, recipe.schedules, None).settings(0)
    other = recipe.schedules.but([("der", "lr", 0.3)])
    assert Der.of(recipe, other, None).settings(0) != made.settings(0)


def test_a_wrong_temperature_is_an_error():
    recipe = quick("digits").recipe
    with pytest.raises(ValueError, match="distillation has 2 weights, expected 1, as 5"):
        Der.of(recipe, recipe.schedules.but([("der_classifier", "distillation", (1.0, 2.0))]), None)


def test_passes_count_both_steps():
    long = Der(DER.first, SCHEDULE, Schedule(epochs=3, lr=0.1, batch_size=4))
    assert long.passes(0, (10, 10), 0, (6, 6)) == 20
    assert long.passes(1, (3, 3, 10), 2, (6, 6)) == 16 + 3 * 9  # three of each class
