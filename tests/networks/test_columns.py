"""Columns with adapters between them: a worked example, what moves, and that they come back from their tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from scail.networks.columns import Columns, sizes_of, with_column
from scail.networks.network import create_network, extract_features, network_from
from scail.runtime.seeds import generator_for

IMAGES = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=generator_for(2, "images"))


class Times(nn.Module):
    """One unit: its input times a number, then times another."""

    def __init__(self, first, second):
        super().__init__()
        self.numbers = nn.Parameter(torch.tensor([first, second]))

    def pieces(self):
        return [lambda x: self.numbers[0] * x, lambda x: self.numbers[1] * x]


def columns_of(name="resnet8", count=2):
    network = create_network(name, 1, 3, generator_for(1, "test"))
    for n in range(1, count):
        column = create_network(name, 1, 1, generator_for(n, "column")).backbone
        features = network.feature_size // n
        network.become(with_column(network.backbone, column, 1, generator_for(n, "draw")), (n + 1) * features)
    network.recreate_linear(4, generator_for(2, "test"))
    return network


def test_what_the_newest_column_shows_by_hand():
    backbone = Columns([Times(2.0, 1.0), Times(3.0, 4.0)], [adapters((0.5, 1.0, 10.0), (1.0, -1.0, 7.0))])
    # After the first piece: 2x, and 3x + 10 relu(0.5 * 2x). After the second: 2x, and 4 times that + 7 relu(-2x).
    assert backbone(torch.tensor([[1.0], [-1.0]])).tolist() == [[2.0, 4 * 13.0], [-2.0, 4 * -3.0 + 14]]


def adapters(*numbers):
    from scail.networks.columns import Adapter

    found = nn.ModuleList(Adapter(1, 1, False) for _ in numbers)
    with torch.no_grad():
        for adapter, (scale, reduce, add) in zip(found, numbers, strict=True):
            adapter.scale.fill_(scale)
            for layer, weight in ((adapter.reduce, reduce), (adapter.add, add)):
                layer.weight.fill_(weight)
                layer.bias.zero_()
    return found


def test_columns_of_before_show_what_they_showed_and_only_the_newest_moves():
    two, three = columns_of(count=2), columns_of(count=3)
    assert torch.equal(extract_features(three, IMAGES)[:, :128], extract_features(two, IMAGES))
    before = {name: value.clone() for name, value in three.state_dict().items()}
    three.train()(IMAGES).square().sum().backward()
    with torch.no_grad():
        for parameter in three.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    moved = {name for name, value in three.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(name.startswith(("backbone.parts.0.", "backbone.parts.1.", "backbone.adapters.0")) for name in moved)
    assert all(any(name.startswith(f"backbone.{of}.") for name in moved) for of in ("parts.2", "adapters.1"))


def test_adapters_are_as_large_as_what_they_add_to():
    column = create_network("resnet8", 1, 3, generator_for(1, "test")).backbone
    assert sizes_of(column, 1) == [(16, True), (16, True), (32, True), (64, False)]


@pytest.mark.parametrize("name", ["resnet8", "mlp", "efficientnet-lite0"])
def test_pieces_are_the_network_and_columns_are_read_from_their_tensors(name):
    plain = create_network(name, 1, 3, generator_for(1, "test")).eval().backbone
    shown = pixels = torch.rand(2, 1, 32, 32, generator=generator_for(3, "pixels"))
    for piece in plain.pieces():
        shown = piece(shown)
    assert torch.equal(shown, plain(pixels))
    network = columns_of(name, 3).eval()
    assert torch.equal(network_from(name, 1, network.state_dict())(IMAGES), network(IMAGES))


def test_tensors_that_do_not_fit_are_an_error():
    tensors = columns_of().state_dict()
    without = {name: value for name, value in tensors.items() if not name.startswith("backbone.adapters.0.2.")}
    with pytest.raises(ValueError, match="not the weights of resnet8"):
        network_from("resnet8", 1, without)


def test_a_network_without_pieces_is_an_error():
    with pytest.raises(ValueError, match="Linear shows none; take one of"):
        sizes_of(nn.Linear(2, 2), 1)
