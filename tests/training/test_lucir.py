"""LUCIR: its losses by hand, imprinted rows, and which rows move."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from scail.config import Schedule
from scail.networks.network import Inside, extract_features
from scail.training import Lucir
from scail.training.imprint import centres
from scail.training.lucir import cosine_network, less_forget_loss, margin_ranking, rebalanced_loss
from tests.training.test_trainers import task_of

SCHEDULE = Schedule(epochs=1, lr=0.05, batch_size=16, decay="cosine")


class Shown(nn.Module):
    """A model that shows the same of every batch."""

    def __init__(self, scores, features, scale=1.0):
        super().__init__()
        self.shown = Inside(torch.tensor(scores), torch.tensor(features), torch.tensor(scale), [])

    def forward(self, _images, inside=""):
        return self.shown if inside else self.shown.scores_NC


def test_features_that_point_elsewhere_are_less_like_the_teachers():
    # cosines 1, 0 and 0.6: 0, 1 and 0.4, mean 1.4 / 3; lengths do not matter
    of, before = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [5.0, 0.0], [1.0, 0.0]])
    assert less_forget_loss(of, before).item() == pytest.approx(1.4 / 3)


def test_only_images_of_past_classes_keep_a_margin_to_the_nearest_new_ones():
    # One past class, three new ones. Its image: 0.5 - 0.7 + (0.6, 0.4) = 0.4 and 0.2; the third rival does not count.
    cosines = torch.tensor([[0.7, 0.4, -0.9, 0.6], [0.7, 0.4, -0.9, 0.6], [0.95, 0.1, 0.2, 0.3]])
    found = margin_ranking(cosines, torch.tensor([0, 1, 0]), past=1)
    # The second is of a new class; in the third all are further away than the margin.
    assert found.tolist() == pytest.approx([0.3, 0, 0])
    # Two past classes, one new: one rival. The other past class is none.
    assert margin_ranking(torch.tensor([[0.2, 0.9, 0.1]]), torch.tensor([0]), past=2).tolist() == pytest.approx([0.4])
    assert margin_ranking(torch.tensor([[0.2, 0.9]]), torch.tensor([0]), past=2).tolist() == [0]


def test_the_loss_is_the_sum_of_its_terms_and_margins_are_a_mean_over_exemplars():
    # Scale 2: cosines (0.5, 0, 0.25) and (0, 0.5, 1). Image 0 is an exemplar of class 0, image 1 of the new class 2.
    model = Shown([[1.0, 0.0, 0.5], [0.0, 1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]], scale=2.0)
    teacher = Shown([[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]])
    labels = torch.tensor([0, 2])
    classification = (-(1 - math.log(math.e + 1 + math.exp(0.5))) - (2 - math.log(1 + math.e + math.exp(2)))) / 2
    margin = 0.5 - 0.5 + 0.25
    found = rebalanced_loss(teacher, 2, 10.0, 2.0, model, torch.zeros(2), labels)
    # less-forget: 0 and 1, mean a half, ten times; the one exemplar of two images counts twice in their mean
    assert found.item() == pytest.approx(classification + 10 * 0.5 + margin, rel=1e-5)


def loss_settings(lucir, task):
    """Past classes, the weight of the less-forget term, and how much an exemplar's margin counts."""
    return lucir._loss(task, task.previous).args[1:]


def test_the_more_is_past_the_more_the_features_are_held():
    task = task_of(past=[3] * 8, new=[10, 10], budget=24)
    task = replace(task, previous=cosine_network(task_of([], [9] * 8), "resnet8"))
    assert loss_settings(Lucir("resnet8", SCHEDULE), task) == (8, 5 * math.sqrt(8 / 2), 44 / 24)
    other = replace(SCHEDULE, distillation=(10.0,))
    assert loss_settings(Lucir("resnet8", other), task)[1] == 10 * 2
    with pytest.raises(ValueError, match="distillation has 2 weights, expected 1, as 5"):
        replace(SCHEDULE, distillation=(1.0, 2.0)).weights((5.0,))


def test_rows_of_new_classes_begin_at_their_mean_and_past_ones_stay():
    first = task_of([], [9, 9])
    before = Lucir("resnet8", SCHEDULE).train(first)
    still = Lucir("resnet8", replace(SCHEDULE, lr=1e-12, weight_decay=0.0))
    task = task_of(past=[3, 3], new=[7, 7], budget=6, previous=before)
    after = still.train(task)
    assert torch.equal(after.linear.weight[:2], before.linear.weight)
    for label in (2, 3):
        unit = F.normalize(extract_features(before, task.images[task.labels == label]), dim=1)
        expected = F.normalize(unit.mean(0), dim=0) * before.linear.weight.norm(dim=1).mean()
        torch.testing.assert_close(after.linear.weight[label], expected)
    assert after.linear.scale.item() == pytest.approx(before.linear.scale.item())
    moved = Lucir("resnet8", SCHEDULE).train(task)
    assert torch.equal(moved.linear.weight[:2], before.linear.weight)
    assert not torch.equal(moved.linear.weight[2:], after.linear.weight[2:])
    assert moved.linear.scale.item() != before.linear.scale.item()


def test_without_new_classes_all_rows_learn():
    before = Lucir("resnet8", SCHEDULE).train(task_of([], [9, 9]))
    task = task_of(past=[6, 6], new=[], budget=12, previous=before)
    after = Lucir("resnet8", SCHEDULE).train(task)
    assert after.linear.out_features == 2 and not torch.equal(after.linear.weight, before.linear.weight)


def test_k_means_finds_the_groups_and_images_stand_for_several_where_there_are_few():
    groups = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    points = groups.repeat_interleave(5, 0) + torch.tensor([-0.2, -0.1, 0.0, 0.1, 0.2]).repeat(3)[:, None]
    draws = [centres(points, 3, torch.Generator().manual_seed(seed)) for seed in range(8)]
    exact = [sorted(found.round(decimals=3).tolist()) == sorted(groups.tolist()) for found in draws]
    assert any(exact)  # from most beginnings; some end with two centres in one group
    assert torch.equal(centres(points, 1, torch.Generator())[0], points.mean(0))
    few = centres(points[:2], 5, torch.Generator().manual_seed(0))
    assert len(few) == 5 and {tuple(row) for row in few.tolist()} == {tuple(row) for row in points[:2].tolist()}
