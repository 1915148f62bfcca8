"""Each state's classes see features of their own: layers and losses by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from scail.training.apart import ApartLayer, joined, new_classes_loss, own_state_loss, state_of_rows
from tests.training.test_trainers import Fixed

LN2, LN3 = math.log(2), math.log(3)


def layer(rows, biases):
    found = nn.Linear(len(rows[0]), len(rows))
    with torch.no_grad():
        found.weight.copy_(torch.tensor(rows))
        found.bias.copy_(torch.tensor(biases))
    return found


def test_a_joined_layer_has_each_classs_row_at_the_features_of_its_state():
    both = joined(layer([[1.0, 2], [3, 4]], [0.1, 0.2]), layer([[5.0, 6]], [0.3]))
    assert both.weight.tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6]]
    assert both.bias.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert state_of_rows(both, 2).tolist() == [0, 0, 1]


def test_new_classes_compete_among_themselves():
    # Scores 0 and ln 3 of classes 2 and 3: three to one.
    found = new_classes_loss(2, Fixed([[0.0, LN3]]), torch.zeros(1), torch.tensor([3]))
    assert found.item() == pytest.approx(math.log(4 / 3))


def test_an_image_of_a_past_class_is_compared_within_its_own_state():
    # Image of class 0: scores ln 3 and 0 of its state, 99 of the other one.
    found = own_state_loss(torch.tensor([0, 0, 1]), Fixed([[LN3, 0.0, 99.0]]), torch.zeros(1), torch.tensor([0]))
    assert found.item() == pytest.approx(math.log(4 / 3))


def test_zeros_stay_zeros_while_rows_learn():
    both = joined(layer([[1.0, 2]], [0.0]), layer([[5.0, 6]], [0.0]))
    own = ApartLayer(both, torch.tensor([0, 1]), 2)
    own(torch.ones(1, 4)).sum().backward()
    assert both.weight.grad.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
