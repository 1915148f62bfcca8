"""Networks that grow: what moves, what they weigh, and that they come back from their tensors."""

from __future__ import annotations

import pytest
import torch

from scail.networks.network import create_network, describe_network, extract_features, network_from
from scail.runtime.seeds import generator_for

IMAGES = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=generator_for(2, "images"))


def grown(name="resnet8", times=2):
    network = create_network(name, 1, 3, generator_for(1, "test"))
    for _ in range(times - 1):
        network.grow()
    network.recreate_linear(4, generator_for(2, "test"))
    return network


def test_features_of_before_come_first_and_the_newest_begins_as_a_copy():
    before = create_network("resnet8", 1, 3, generator_for(1, "test"))
    features = extract_features(before, IMAGES)
    network = grown(times=3)
    assert network.feature_size == 3 * 64 and network.eval()(IMAGES).shape == (5, 4)
    assert torch.equal(extract_features(network, IMAGES), torch.cat([features] * 3, 1))


def test_it_weighs_as_many_times_as_much():
    one, three = (describe_network(grown(times=times), 8, 8) for times in (1, 3))
    layer = 4 * 64
    assert three["parameters"] - 3 * layer - 4 == 3 * (one["parameters"] - layer - 4)
    assert three["flops"] == 3 * one["flops"]


def test_only_the_newest_part_moves_and_normalises_by_batches():
    network = grown().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    network(IMAGES).square().sum().backward()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    moved = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert any(name.startswith("backbone.parts.1.") and "running_mean" in name for name in moved)
    assert any(name.startswith("backbone.parts.1.") and "conv" in name for name in moved)
    assert not any(name.startswith("backbone.parts.0.") for name in moved)


@pytest.mark.parametrize("name", ["resnet8", "mlp", "efficientnet-lite0", "resnet8+30"])
def test_it_is_read_from_its_tensors(name):
    network = grown(name, 3).eval()
    again = network_from(name, 1, network.state_dict())
    assert torch.equal(again(IMAGES), network(IMAGES)) and again.feature_size == network.feature_size
    again.grow()
    assert again.feature_size == network.feature_size * 4 // 3


def test_tensors_that_do_not_fit_are_an_error():
    tensors = grown(times=3).state_dict()
    without = {name: value for name, value in tensors.items() if not name.startswith("backbone.parts.1.")}
    for wrong in (without, tensors | {"linear.weight": torch.zeros(4, 64)}):
        with pytest.raises(ValueError, match="not the weights of resnet8"):
            network_from("resnet8", 1, wrong)
