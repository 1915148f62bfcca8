"""WA: alignment and clipping by hand; the aligned network is what goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from scail.config import Schedule
from scail.networks.network import create_network
from scail.runtime.seeds import generator_for
from scail.training import Wa
from scail.training.wa import align, never_negative
from tests.training.test_trainers import task_of

SCHEDULE = Schedule(epochs=1, lr=0.05, batch_size=16, decay="cosine")


def layer(rows, biases):
    found = nn.Linear(2, len(rows))
    with torch.no_grad():
        found.weight.copy_(torch.tensor(rows))
        found.bias.copy_(torch.tensor(biases))
    return found


def test_new_rows_become_as_long_as_past_ones_on_average():
    # lengths 2 and 10 (past), 5 (new): the factor is 6 / 5
    of = layer([[0.0, 2.0], [6.0, 8.0], [3.0, 4.0]], [1.0, 1.0, 10.0])
    align(of, past=2)
    torch.testing.assert_close(of.weight, torch.tensor([[0.0, 2.0], [6.0, 8.0], [3.6, 4.8]]))
    assert of.bias.tolist() == pytest.approx([1, 1, 12])


@pytest.mark.parametrize("past", [0, 2])
def test_without_past_or_without_new_classes_nothing_is_aligned(past):
    of = layer([[0.0, 2.0], [6.0, 8.0]], [1.0, 1.0])
    align(of, past)
    assert of.weight.tolist() == [[0, 2], [6, 8]]


def test_a_step_below_zero_ends_at_zero_before_the_next_pass_and_after_the_last():
    of, images = layer([[0.1, 2.0]], [0.0]), torch.tensor([[1.0, 1.0]])
    optimizer = torch.optim.SGD(of.parameters(), 1.0)
    with never_negative(of):
        seen = []
        for _ in range(2):
            optimizer.zero_grad()
            score = of(images)
            seen.append(round(score.item(), 4))
            score.sum().backward()
            optimizer.step()  # weights and bias go down by 1
    assert seen == [2.1, 0.0]  # (0, 1) and -1, where it would be (-0.9, 1) and -1
    assert of.weight.tolist() == [[0, 0]] and not of._forward_pre_hooks


def test_the_next_state_starts_from_the_aligned_network_and_learns_from_it(monkeypatch):
    calls = []
    monkeypatch.setattr("scail.training.wa.fit", lambda network, task, schedule, loss: calls.append((network, loss)))
    before = create_network("resnet8", 1, 3, generator_for(0, "test"))
    with torch.no_grad():
        before.linear.weight.abs_()
    task = task_of(past=[3, 3, 3], new=[8], budget=9, previous=before)
    after = Wa("resnet8", SCHEDULE).train(task)
    ((trained, loss),) = calls
    teacher, share = loss.args
    assert torch.equal(teacher.linear.weight, before.linear.weight) and share == 3 / 4
    assert trained is after and torch.equal(after.linear.weight[:3], before.linear.weight)
    lengths = after.linear.weight.norm(dim=1)
    assert lengths[3].item() == pytest.approx(lengths[:3].mean().item())


def test_no_weight_is_ever_negative_and_known_classes_alone_still_heed_labels():
    first = Wa("resnet8", SCHEDULE).train(task_of([], [9, 9]))
    assert (first.linear.weight >= 0).all() and first.linear.weight.any()
    again = task_of(past=[8, 8], new=[], budget=16, previous=first)
    one, two = (
        Wa("resnet8", SCHEDULE).train(replace(again, labels=labels)) for labels in (again.labels, 1 - again.labels)
    )
    assert not torch.equal(one.linear.weight, two.linear.weight)
