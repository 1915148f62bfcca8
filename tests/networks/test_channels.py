"""Masks on channels by hand; what removal leaves gives the same features, and comes back from its tensors."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from scail.networks.channels import Masked, inner_of
from scail.networks.network import create_network, describe_network, network_from
from scail.runtime.seeds import generator_for

IMAGES = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=generator_for(2, "images"))
PIXELS = torch.rand(5, 1, 8, 8, generator=generator_for(3, "pixels"))


def backbone_of(name="resnet8"):
    network = create_network(name, 1, 3, generator_for(1, "test"))
    for module in network.backbone.modules():  # norms that change something
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2, generator=generator_for(4, "norm"))
            nn.init.uniform_(module.bias, -1, 1, generator=generator_for(5, "norm"))
    return network.backbone


def test_masks_grow_steeper_within_each_epoch():
    masked = Masked(backbone_of(), batches=3, most=10.0).train()
    found = []
    for _ in range(5):
        masked(PIXELS)
        found.append(masked.steepness)
    assert found == pytest.approx([0.1, 0.1 + 9.9 / 2, 10, 0.1, 0.1 + 9.9 / 2])
    assert masked.eval().steepness == 10


def test_a_mask_is_a_sigmoid_and_its_gradient_is_as_if_s_were_1():
    masked = Masked(backbone_of(), 3, 10.0)
    with torch.no_grad():
        masked.values[0][0] = math.log(3) / 2
    mask = masked.masks(2.0)[0][0]
    assert mask.item() == pytest.approx(0.75)  # 3 to 1
    mask.backward()
    e = 1 / (1 + math.exp(-math.log(3) / 2))
    assert masked.values[0].grad[0].item() == pytest.approx(e * (1 - e))


def test_sparsity_is_the_share_of_weights_that_masks_leave():
    masked = Masked(backbone_of(), 3, 10.0).eval()
    with torch.no_grad():
        for values in masked.values:
            values.fill_(100.0)
        assert masked.sparsity().item() == pytest.approx(1)
        masked.values[0][:12] = -100.0  # 4 of 16 channels are left of the first block
        whole = 9 * (1 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64)
        assert masked.sparsity().item() == pytest.approx((whole - 9 * 2 * 16 * 12) / whole)


@pytest.mark.parametrize("name", ["resnet8", "mlp"])
def test_what_is_masked_can_be_removed(name):
    network = create_network(name, 1, 3, generator_for(1, "test"))
    network.become(backbone_of(name), network.feature_size)
    full = describe_network(network, 8, 8)
    masked = Masked(network.backbone, 3, 10.0).eval()
    with torch.no_grad():
        for values in masked.values:
            values.copy_(torch.where(torch.arange(len(values)) % 4 == 1, 0.2, -30.0))
        expected = masked(PIXELS)
    pruned = masked.pruned()
    torch.testing.assert_close(pruned(PIXELS), expected)
    assert [len(one.made.weight) for one in inner_of(pruned)] == [len(values) // 4 for values in masked.values]
    less = describe_network(network, 8, 8)
    assert less["parameters"] < full["parameters"] / 2 and less["flops"] < full["flops"] / 2


def test_one_channel_of_each_layer_stays():
    masked = Masked(backbone_of(), 3, 10.0)
    with torch.no_grad():
        for values in masked.values:
            values.copy_(-1 - torch.arange(len(values)))
    assert [len(one.made.weight) for one in inner_of(masked.pruned())] == [1, 1, 1]


def test_an_extractor_with_fewer_channels_is_read_from_its_tensors():
    network = create_network("resnet8", 1, 3, generator_for(1, "test"))
    network.grow()
    masked = Masked(network.backbone.parts[1], 3, 10.0)
    with torch.no_grad():
        masked.values[1][5:] = -1.0
    network.backbone.parts[1] = masked.pruned()
    network.recreate_linear(4, generator_for(2, "test"))
    again = network_from("resnet8", 1, network.eval().state_dict())
    assert torch.equal(again(IMAGES), network(IMAGES))
    assert describe_network(again, 8, 8) == describe_network(network, 8, 8)


def test_a_network_that_does_not_say_what_lies_inside_is_an_error():
    with pytest.raises(ValueError, match="removes channels inside blocks"):
        Masked(create_network("efficientnet-lite0", 1, 3, generator_for(1, "test")).backbone, 3, 10.0)
