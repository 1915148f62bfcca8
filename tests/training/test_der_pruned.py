"""DER^pruned: its loss by hand, and what is left of an extractor."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from scail.config.recipes import quick
from scail.networks.channels import Masked, inner_of
from scail.networks.network import create_network, describe_network
from scail.runtime.seeds import generator_for
from scail.training import Der, DerPruned, Joint
from scail.training.der import expanded_loss
from scail.training.der_pruned import sparse_loss
from tests.training.test_trainers import SCHEDULE, Fixed, network_for, task_of

CLASSIFIER = replace(SCHEDULE, epochs=2)


def pruned_der(weight=0.75, **schedule):
    first = replace(SCHEDULE, distillation=(weight,), **schedule)
    return DerPruned(Joint("resnet8", SCHEDULE), first, CLASSIFIER)


def test_the_loss_is_ders_and_the_weighted_share_that_is_left():
    backbone = create_network("resnet8", 1, 3, generator_for(1, "test")).backbone

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.masked, self.fixed = Masked(backbone, 3, 10.0).eval(), Fixed([[0.0, 1, 2, 3, 4, 5]])

        def forward(self, images):
            return self.fixed(images)

    model, images, labels = Both(), torch.zeros(1), torch.tensor([2])
    expected = expanded_loss(2, 3, model, images, labels) + 0.5 * model.masked.sparsity()
    assert sparse_loss(0.5, 2, 3, model, images, labels).item() == pytest.approx(expected.item())
    assert 0.99 < model.masked.sparsity() < 1  # at first all channels are in


def test_a_heavy_loss_leaves_few_channels_and_the_next_extractor_begins_with_all():
    before = network_for(2)
    heavy = pruned_der(weight=3000.0, epochs=8, lr=0.01)
    after = heavy.train(task_of(past=[3, 3], new=[24, 24], budget=6, previous=before))
    widths = [len(one.made.weight) for one in inner_of(after.backbone.parts[1])]
    assert all(width < full for width, full in zip(widths, (16, 32, 64), strict=True)), widths
    assert describe_network(after, 8, 8)["parameters"] < 1.8 * describe_network(before, 8, 8)["parameters"]
    assert not any(isinstance(module, Masked) for module in after.modules())
    third = pruned_der().train(task_of(past=[3] * 4, new=[7], budget=12, previous=after))
    assert [len(one.made.weight) for one in inner_of(third.backbone.parts[1])] == widths
    assert third.feature_size == 3 * 64
    light = pruned_der(weight=0.0).train(task_of(past=[3] * 4, new=[7], budget=12, previous=after))
    assert [len(one.made.weight) for one in inner_of(light.backbone.parts[2])] == [16, 32, 64]


def test_its_states_are_its_own_but_for_the_first():
    recipe = quick("digits").recipe
    made, der = (kind.of(recipe, recipe.schedules, None) for kind in (DerPruned, Der))
    assert made.settings(0) == der.settings(0) and made.settings(1) != der.settings(1)
    other = DerPruned.of(recipe, recipe.schedules.but([("der_pruned", "distillation", (2.0,))]), None)
    assert other.settings(0) == made.settings(0) and other.settings(1) != made.settings(1)
