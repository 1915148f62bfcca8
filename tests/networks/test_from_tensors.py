"""A network from its tensors: whole, or a clear error."""

from __future__ import annotations

import pytest
import torch

from scail.networks.network import create_network, network_from
from scail.runtime.seeds import generator_for


def test_it_is_the_network_that_the_tensors_are_of():
    network = create_network("resnet8", 1, 3, generator_for(1, "any")).eval()
    images = torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8)
    again = network_from("resnet8", 1, network.state_dict())
    assert not again.training
    assert torch.equal(again(images), network(images))


@pytest.mark.parametrize(("name", "channels"), [("resnet20", 1), ("resnet8", 3)])
def test_tensors_of_another_network_are_an_error(name, channels):
    tensors = create_network("resnet8", 1, 3, generator_for(1, "any")).state_dict()
    with pytest.raises(ValueError, match=f"not the weights of {name} "):
        network_from(name, channels, tensors)
    with pytest.raises(ValueError, match="not the weights of resnet8 "):
        network_from("resnet8", 1, {key: value for key, value in tensors.items() if "linear" not in key})


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_no_numbers_are_an_error_that_names_them(bad):
    tensors = create_network("resnet8", 1, 3, generator_for(1, "any")).state_dict()
    tensors["backbone.conv1.weight"][0, 0, 1, 1] = bad
    with pytest.raises(ValueError, match=r"backbone\.conv1\.weight has numbers that are NaN or infinite"):
        network_from("resnet8", 1, tensors)
