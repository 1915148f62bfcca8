"""ResNets by name: sizes as published, and what tells them apart."""

import pytest
import torch

from scail.networks.network import describe_network, extract_features, network_from
from scail.networks.resnet import NETWORKS
from tests.networks.test_network import make, make_images


@pytest.mark.parametrize(
    ("name", "num_classes", "feature_size", "parameters"),
    [
        ("resnet18", 1000, 512, 11_689_512),  # as in torchvision
        ("resnet18-3x3", 100, 512, 11_220_132),
        ("resnet32", 10, 64, 464_154),  # "0.46M" in He et al.
        ("resnet20", 10, 64, 269_722),  # "0.27M" in He et al.
        # conv and norm 432 + 32; blocks 2*(2304 + 32), 4608 + 9216 + 128, 18432 + 36864 + 256; linear 650
        ("resnet8", 10, 64, 75_290),
        # 648 + 48; blocks 2*(5184 + 48), 10368 + 20736 + 192, 41472 + 82944 + 384; linear 970
        ("resnet8-half", 10, 96, 168_226),
        # 1728 + 128; blocks 2*(36864 + 128), 73728 + 147456 + 512, 294912 + 589824 + 1024; linear 2570
        ("resnet8x4-half", 10, 256, 1_185_866),
        ("resnet8x4", 10, 256, 1_185_866),
        # 864 + 64; stages 6*9216 + 384, 18432 + 5*36864 + 768, 73728 + 5*147456 + 1536; linear 1290
        ("resnet20x2", 10, 128, 1_073_962),
    ],
)
def test_networks_have_the_published_size(name, num_classes, feature_size, parameters):
    network = make(name, channels=3, num_classes=num_classes)
    assert network.feature_size == network.linear.in_features == feature_size
    assert sum(p.numel() for p in network.parameters()) == parameters


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_takes_grey_and_coloured_images(name, channels):
    network = make(name, channels)
    images = make_images(2, channels, side=32)
    assert network.features(images).shape == (2, network.feature_size)
    assert network(images).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "side"), [("resnet8", 32), ("resnet8-half", 16), ("resnet8x2", 32), ("resnet8x2-half", 16)]
)
def test_the_stem_of_half_halves_the_image(name, side):
    backbone = make(name).backbone
    seen = []
    backbone.stages[0].register_forward_hook(lambda module, inputs, output: seen.append(output.shape[2:]))
    backbone(make_images(2, side=32).float())
    assert seen == [(side, side)]


def test_four_times_the_channels_behind_a_stem_that_halves():
    """Multiplications: weights of each layer times the places where they are used."""
    found = describe_network(make("resnet8x4-half", channels=3, num_classes=10), 32, 32)
    by_hand = 1728 * 16**2 + 2 * 36864 * 16**2 + (73728 + 147456) * 8**2 + (294912 + 589824) * 4**2 + 2560
    assert found["flops"] == 2 * by_hand


def test_a_wide_network_is_read_back_by_its_name():
    network = make("resnet8x2-half", channels=3)
    again = network_from("resnet8x2-half", 3, network.state_dict())
    images = make_images(2, 3, side=32)
    assert torch.equal(network.eval().features(images), again.features(images))


@pytest.mark.parametrize(
    "name", ["resnet8x1", "resnet8x17", "resnet8x04", "resnet8x", "resnet18x2", "resnet8-halfx2", "resnet20-half"]
)
def test_other_widths_are_unknown_networks(name):
    with pytest.raises(ValueError, match=r"unknown network .*resnet8xN and resnet8xN-half \(N times as wide, 2 to 16"):
        make(name)


@pytest.mark.parametrize(("name", "may_be_negative"), [("resnet32", True), ("resnet8", False)])
def test_only_icarls_features_can_be_negative(name, may_be_negative):
    features = extract_features(make(name), make_images(16))
    assert bool((features < 0).any()) == may_be_negative
    assert (features > 0).any()
