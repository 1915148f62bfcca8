"""The losses that trainers share: numbers worked by hand, or by naive loops."""

from __future__ import annotations

import math

import pytest
import torch

from scail.networks.network import create_network
from scail.runtime.seeds import generator_for
from scail.training.losses import distillation_loss, teacher_of

LN2, LN3 = math.log(2), math.log(3)


def test_distillation_is_softened_by_2_and_runs_over_the_classes():
    # Scores are divided by 2, and e^(2 ln 3 / 2) = 3: the student's rows are (3, 1) / 4 and (1, 1) / 2, the teacher's
    # the same in the other order. -(1/2 ln 3/4 + 1/2 ln 1/4) = 2 ln 2 - 1/2 ln 3; -(3/4 + 1/4) ln 1/2 = ln 2; the mean.
    # Over the batch it would be 1.5 ln 2 - 1/8 ln 3; with temperature 1 a row would be (9, 1) / 10.
    student = torch.tensor([[2 * LN3, 0.0], [0.0, 0.0]])
    teacher = torch.tensor([[0.0, 0.0], [2 * LN3, 0.0]])
    assert distillation_loss(student, teacher).item() == pytest.approx(1.5 * LN2 - 0.25 * LN3)


def naive_distillation(student, teacher, temperature=2.0):
    total = 0.0
    for s, t in zip(student.tolist(), teacher.tolist(), strict=True):
        p = [math.exp(x / temperature) for x in s]
        q = [math.exp(x / temperature) for x in t]
        total -= sum(b / sum(q) * math.log(a / sum(p)) for a, b in zip(p, q, strict=True))
    return total / len(student)


@pytest.mark.parametrize("temperature", [2.0, 0.7])
def test_distillation_equals_naive_loops(temperature):
    student, teacher = 3 * torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)).double()
    expected = naive_distillation(student, teacher, temperature)
    assert distillation_loss(student, teacher, temperature).item() == pytest.approx(expected)


def test_a_teacher_is_a_frozen_copy_in_evaluation_mode():
    network = create_network("resnet8", 1, 2, generator_for(0, "test")).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    teacher = teacher_of(network)
    images = torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8, generator=generator_for(0, "images"))
    torch.testing.assert_close(teacher(images)[:1], teacher(images[:1]))  # scores do not depend on the batch
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    with torch.no_grad():
        teacher.linear.weight.zero_()
    assert network.training and all(p.requires_grad for p in network.parameters())
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())
