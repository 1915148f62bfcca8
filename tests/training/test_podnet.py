"""PODNet: its losses by hand, and what each of its two steps moves."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from scail.config import Schedule
from scail.networks.network import create_network
from scail.runtime.seeds import generator_for
from scail.training import Podnet
from scail.training.podnet import PROXIES, check_maps
from scail.training.pooled import nca_loss, pooled, pooled_loss
from tests.training.test_trainers import task_of

SCHEDULE = Schedule(epochs=1, lr=0.05, batch_size=16, decay="cosine")
CLASSIFIER = replace(SCHEDULE, epochs=2)


def test_pooling_sums_squares_over_the_width_and_over_the_height():
    # One channel: (1 2 / 0 2). Squares (1 4 / 0 4): rows 5 and 4, columns 1 and 8; length sqrt(25 + 16 + 1 + 64).
    found = pooled(torch.tensor([[[[1.0, 2.0], [0.0, 2.0]]]]))
    torch.testing.assert_close(found, torch.tensor([[5.0, 4, 1, 8]]) / math.sqrt(106))
    two = pooled(torch.ones(1, 2, 3, 4))
    assert two.shape == (1, 2 * (3 + 4)) and two.norm().item() == pytest.approx(1)


def test_the_distance_of_pooled_maps_is_a_mean_over_stages_and_images():
    one = torch.tensor([[[[1.0]]], [[[1.0]]]])  # one pixel: pooled to (1, 1) / sqrt 2
    channels = torch.tensor([[[[1.0]], [[0.0]]], [[[1.0]], [[0.0]]]])  # two channels, the first alone
    other = channels.flip(1).clone()
    other[1] = channels[1]
    # Stage 1 is alike. In stage 2 image 0 is at a right angle, sqrt 2 away: (1, 0, 1, 0) and (0, 1, 0, 1) over sqrt 2.
    assert pooled_loss([one, channels], [5 * one, other]).item() == pytest.approx(math.sqrt(2) / 4)


def test_maps_that_are_alike_give_a_finite_gradient():
    maps = torch.rand(2, 3, 4, 4, generator=generator_for(0, "maps")).requires_grad_()
    pooled_loss([maps], [maps.detach()]).backward()
    assert maps.grad.isfinite().all()


def test_the_own_score_is_to_be_above_all_others_together():
    # Three classes. Image 0: log(e^1 + e^0) - 1.2. Image 1 is far above the others: 0.
    scores = torch.tensor([[1.2, 1.0, 0.0], [-9.0, 9.0, -9.0]])
    assert nca_loss(scores, torch.tensor([0, 1])).item() == pytest.approx((math.log(math.e + 1) - 1.2) / 2)
    # Wrong ones: log(e^1.2 + e^0) - 1, and log(e^-9 + e^9) + 9, which is 18.
    assert nca_loss(scores, torch.tensor([1, 2])).item() == pytest.approx((math.log(math.exp(1.2) + 1) - 1 + 18) / 2)
    assert nca_loss(torch.ones(2, 1), torch.tensor([0, 0])).item() == 0  # a single class


@pytest.fixture
def fits(monkeypatch):
    calls = []

    def fit(network, task, schedule, loss, stage="training"):
        free = {name for name, p in network.named_parameters() if p.requires_grad}
        calls.append(SimpleNamespace(task=task, schedule=schedule, loss=loss, stage=stage, free=free))

    monkeypatch.setattr("scail.training.podnet.fit", fit)
    return calls


def test_first_all_but_past_rows_is_trained_then_the_layer_alone_on_balanced_images(fits):
    podnet = Podnet("resnet8", SCHEDULE, CLASSIFIER)
    before = podnet.train(task_of([], [12] * 8))
    assert before.linear.weight.shape == (8, 64 * PROXIES) and len(fits) == 1
    task = task_of(past=[3] * 8, new=[12, 12], budget=24, previous=before)
    after = podnet.train(task)
    whole, last = fits[1:]
    assert {"linear.weight", "linear.scale", "backbone.conv1.weight"} <= whole.free and "linear.held" not in whole.free
    assert whole.loss.args[1:] == pytest.approx((math.sqrt(10 / 2), 3 * math.sqrt(10 / 2)))
    assert last.free == {"linear.weight", "linear.scale"} and last.stage == "classifier"
    assert torch.bincount(last.task.labels).tolist() == [3] * 10 and last.schedule == CLASSIFIER
    assert all(p.requires_grad for p in after.parameters()) and after.linear.held is None
    other = Podnet("resnet8", replace(SCHEDULE, distillation=(10.0, 8.0)), CLASSIFIER)
    other.train(task)
    assert fits[3].loss.args[1:] == pytest.approx((10 * math.sqrt(5), 8 * math.sqrt(5)))


def test_the_images_of_both_steps_are_counted():
    podnet = Podnet("resnet8", SCHEDULE, CLASSIFIER)
    assert podnet.passes(0, [10, 10], 0, (8, 8)) == 20 and podnet.epochs(0, 20) == 1
    assert podnet.passes(1, [4, 4, 10], 2, (8, 8)) == 18 + 2 * 12 and podnet.epochs(1, 18) == 3


def test_a_network_that_shows_no_maps_is_a_clear_error():
    network = create_network("resnet8+50", 1, 2, generator_for(0, "test"))
    with pytest.raises(ValueError, match=r"resnet8\+50 shows none; take one of"):
        check_maps(network, Podnet.title, "podnet")
