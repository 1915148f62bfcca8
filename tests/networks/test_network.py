import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from scail.networks.network import create_network, describe_network, extract_features
from scail.runtime.seeds import generator_for


def make(name="resnet8", channels=1, num_classes=3, seed=0):
    return create_network(name, channels, num_classes, torch.Generator().manual_seed(seed))


def make_images(count, channels=1, side=8):
    generator = torch.Generator().manual_seed(4)
    return torch.randint(256, (count, channels, side, side), dtype=torch.uint8, generator=generator)


def same_bits(network, other):
    ours, theirs = network.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_images_are_normalised_by_channel():
    network = make(channels=2).eval()
    images = make_images(4, channels=2)
    plain = network.features(images)
    network.mean.copy_(torch.tensor([10.0, 20.0]))
    network.std.copy_(torch.tensor([2.0, 5.0]))
    normalised = (images.float() - torch.tensor([10.0, 20.0])[:, None, None]) / torch.tensor([2.0, 5.0])[:, None, None]
    torch.testing.assert_close(network.features(images), network.backbone(normalised))
    assert not torch.allclose(network.features(images), plain)


@pytest.mark.parametrize("name", ["resnet8", "resnet32"])
def test_the_same_generator_gives_the_same_bits_and_the_global_state_is_not_touched(name):
    before = torch.get_rng_state()
    network = make(name, seed=1)
    torch.manual_seed(99)  # what others do with the global state does not matter
    again = make(name, seed=1)
    assert same_bits(network, again)
    assert not same_bits(network, make(name, seed=2))
    torch.set_rng_state(before)
    make(name, seed=1).recreate_linear(7, generator_for(0, "linear"))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_fresh_network_has_usable_weights():
    # Weights are made on the meta device and filled by hand: nothing may be left unfilled.
    network = make("resnet18-3x3")
    for name, values in network.state_dict().items():
        assert values.isfinite().all(), name
    stem = network.backbone.conv1.weight
    assert stem.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)  # He, fan out
    assert network.linear.weight.abs().max() <= 512**-0.5


def test_the_linear_layer_is_recreated_or_keeps_its_past_rows():
    network = make(num_classes=3)
    weight, bias = network.linear.weight.detach().clone(), network.linear.bias.detach().clone()
    fresh, kept = network.clone(), network.clone()
    fresh.recreate_linear(5, generator_for(1))
    kept.recreate_linear(5, generator_for(1), keep_past=True)
    for linear in (fresh.linear, kept.linear):
        assert linear.weight.shape == (5, 64) and linear.bias.shape == (5,)
        assert linear.weight.requires_grad and linear.bias.requires_grad
    assert torch.equal(kept.linear.weight[:3], weight) and torch.equal(kept.linear.bias[:3], bias)
    assert not (fresh.linear.weight[:3] == weight).any() and not (fresh.linear.bias[:3] == bias).any()
    assert torch.equal(kept.linear.weight[3:], fresh.linear.weight[3:])  # new rows are drawn alike
    assert torch.equal(network.linear.weight, weight)  # a clone is independent


def test_flops_are_two_for_each_multiplication_of_the_known_network():
    described = describe_network(make("resnet18", 3, 1000), 224, 224)
    assert described["flops"] == pytest.approx(2 * 1.814e9, rel=1e-3)
    assert (described["feature_size"], described["parameters"]) == (512, 11_689_512)


def test_describing_a_network_leaves_it_as_it_was():
    network = make().train()
    before = network.clone()
    assert describe_network(network, 8, 8)["flops"] > 0
    assert network.training and same_bits(network, before)


def test_an_unknown_network_is_an_error():
    with pytest.raises(ValueError, match="unknown network 'resnet9'; known: resnet18"):
        make("resnet9")


@pytest.mark.parametrize("training", [True, False])
def test_extracted_features_are_those_of_evaluation_mode_and_the_network_is_left_as_it_was(training):
    network = make().train(training)
    before = network.clone()
    images = make_images(300)  # more than one batch
    features = extract_features(network, images)
    assert network.training == training and same_bits(network, before)  # batch norm saw nothing
    network.eval()
    torch.testing.assert_close(features, network.features(images).detach())
    assert not features.is_inference() and not features.requires_grad


def test_no_images_have_no_features():
    assert extract_features(make(), make_images(0)).shape == (0, 64)


def test_a_timm_network_without_timm_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    with pytest.raises(ValueError, match=r"'timm:resnet10t' needs timm: pip install 'scail\[timm\]'"):
        make("timm:resnet10t")


@pytest.mark.parametrize("fails", ["RuntimeError('operator torchvision::nms does not exist')", "ImportError('no _C')"])
def test_a_timm_that_cannot_be_imported_is_no_timm_to_be_installed(monkeypatch, tmp_path, fails):
    (tmp_path / "timm.py").write_text(f"raise {fails}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(ValueError, match=r"timm is installed and cannot be imported \((operator|no _C).*a torchvision"):
        make("timm:resnet10t")


@pytest.fixture
def stand_in_timm(monkeypatch):
    """A module that does what scail asks of timm: weights from torch's global state, and `num_features`."""

    def create_model(name, pretrained, in_chans, num_classes):
        assert not pretrained
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        assert num_classes == 0
        model = nn.Sequential(nn.Conv2d(in_chans, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        model.num_features = 6
        return model

    timm = ModuleType("timm")
    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)


def test_a_timm_network_gets_its_weights_from_the_generator_too(stand_in_timm):
    before = torch.get_rng_state()
    network = make("timm:tiny", channels=3, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert network.feature_size == 6 and network(make_images(2, 3)).shape == (2, 3)
    torch.manual_seed(99)
    assert same_bits(network, make("timm:tiny", channels=3, seed=1))
    assert not same_bits(network, make("timm:tiny", channels=3, seed=2))
    torch.set_rng_state(before)


def test_a_network_unknown_to_timm_is_an_error(stand_in_timm):
    with pytest.raises(ValueError, match="'timm:huge': Unknown model"):
        make("timm:huge")
