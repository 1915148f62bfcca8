from __future__ import annotations

import pickle
import re
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from scail import IncrementalClassifier
from scail.networks.network import create_network, extract_features
from scail.networks.pretrained import has_pretrained, start_network
from scail.runtime.seeds import generator_for
from scail.training import joint
from tests.classifier.little import little, little_images


def resnet18(seed=5):
    return create_network("resnet18", 3, 10, generator_for(seed, "weights"))


def as_torchvision(network):
    """The weights under torchvision's names, with its last layer for 1000 classes."""
    named = {
        re.sub(r"^stages\.(\d)\.", lambda m: f"layer{int(m[1]) + 1}.", key): value.contiguous()
        for key, value in network.backbone.state_dict().items()
    }
    return named | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}


def test_torchvisions_names_are_understood(tmp_path):
    given = resnet18()
    named = as_torchvision(given)
    assert {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer4.1.bn2.bias"} <= named.keys()
    assert {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_var"} <= named.keys()
    assert len(named) == 122  # as many as torchvision's ResNet-18 has
    save_file(named, tmp_path / "w.safetensors")
    network = start_network("resnet18", tmp_path / "w.safetensors", 3)
    assert network.mean.tolist() == pytest.approx([123.675, 116.28, 103.53])
    given.mean, given.std = network.mean, network.std
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    assert torch.equal(extract_features(network, images), extract_features(given.eval(), images))


def test_a_file_without_counters_will_do(tmp_path):
    named = {key: value for key, value in as_torchvision(resnet18()).items() if "num_batches" not in key}
    save_file(named, tmp_path / "w.safetensors")
    start_network("resnet18", tmp_path / "w.safetensors", 3)


def test_a_classifier_begins_with_the_weights_of_another(tmp_path, monkeypatch):
    """Those of a model's own folder: scail's names, with its normalisation."""
    little().learn(*little_images("a", "b")).save(tmp_path / "m")
    (weights,) = (tmp_path / "m").glob("network-*")
    begun = []
    monkeypatch.setattr(joint, "fit", lambda network, task, schedule: begun.append(network.clone()))
    little(method="ft", backbone="resnet8", backbone_weights=weights).learn(*little_images("x", "y", "z"))
    source = IncrementalClassifier.load(tmp_path / "m").model_.learned.network
    (network,) = begun
    for key, value in source.backbone.state_dict().items():
        assert torch.equal(network.backbone.state_dict()[key], value)
    assert torch.equal(network.mean, source.mean) and network.linear.out_features == 3


@pytest.mark.parametrize("method", ["icarl", "bic", "deesil", "ft_bal"])
def test_every_trainer_begins_with_given_weights(method, tmp_path):
    little().learn(*little_images("a", "b")).save(tmp_path / "m")
    (weights,) = (tmp_path / "m").glob("network-*")
    fresh, given = (little(method=method, backbone="resnet8", backbone_weights=w) for w in (None, weights))
    images, labels = little_images("x", "y")
    assert not np.array_equal(
        fresh.learn(images, labels).decision_function(images), given.learn(images, labels).decision_function(images)
    )


def test_wrong_weights_are_a_clear_error(tmp_path):
    named = as_torchvision(resnet18())
    path = tmp_path / "w.safetensors"
    for change, message in (
        (lambda: named.pop("layer3.1.conv2.weight"), r"has no 'stages.2.1.conv2.weight' \(and 0 more\)"),
        (lambda: named.update({"layer3.1.conv2.weight": torch.zeros(3)}), "has another shape of"),
        (lambda: named.update({"head.weight": torch.zeros(3)}), "has an unknown 'head.weight'"),
    ):
        change()
        save_file(named, path)
        with pytest.raises(ValueError, match=message):
            start_network("resnet18", path, 3)
    with pytest.raises(ValueError, match="expected the weights of resnet8"):
        start_network("resnet8", path, 3)
    with pytest.raises(ValueError, match="expected a backbone timm:<name>, not 'resnet18'"):
        start_network("resnet18", "pretrained", 3)


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("layer1.0.conv1.weight", torch.nan, "w.safetensors: 'layer1.0.conv1.weight' has numbers that are NaN or inf"),
        ("bn1.running_var", torch.inf, "w.safetensors: 'bn1.running_var' has numbers that are NaN or infinite"),
        ("mean", torch.nan, "w.safetensors: 'mean' has numbers that are NaN or infinite"),
        ("std", 0.0, "w.safetensors: 'std' is not above 0; images are divided by it"),
    ],
)
def test_weights_that_are_no_numbers_are_refused_with_file_and_tensor(tmp_path, name, bad, message):
    named = as_torchvision(resnet18()) | {"mean": torch.zeros(3), "std": torch.ones(3)}
    named[name] = named[name].clone()
    named[name].view(-1)[0] = bad
    save_file(named, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=re.escape(message)):
        start_network("resnet18", tmp_path / "w.safetensors", 3)


def test_a_pickle_is_not_read(tmp_path):
    (tmp_path / "w.pth").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match=r"not a safetensors file .* can hold code and are not read"):
        start_network("resnet18", tmp_path / "w.pth", 3)


@pytest.fixture
def stand_in_timm(monkeypatch):
    """Stands in for timm, which is not installed here: known weights where pretrained ones are asked for."""

    def create_model(name, pretrained, in_chans, num_classes):
        assert num_classes == 0
        if name == "offline" and pretrained:
            raise OSError("cannot reach the hub")
        model = nn.Sequential(nn.Conv2d(in_chans, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        if pretrained:
            nn.init.constant_(model[0].weight, 0.25)
        model.num_features = 6
        model.pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
        return model

    timm = ModuleType("timm")
    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)


def test_timms_pretrained_weights_and_normalisation(stand_in_timm, tmp_path):
    network = start_network("timm:tiny", "pretrained", 3)
    assert (network.backbone[0].weight == 0.25).all()
    assert network.mean.tolist() == [127.5] * 3 and network.std.tolist() == [63.75] * 3
    images = np.random.RandomState(0).randint(0, 256, (8, 12, 12, 3), dtype=np.uint8)
    clf = little(backbone="timm:tiny", backbone_weights="pretrained").learn(images, list("aaaabbbb"))
    assert (clf.model_.learned.network.mean == 127.5).all()
    again = IncrementalClassifier.load(clf.save(tmp_path / "m") and tmp_path / "m")
    assert np.array_equal(again.decision_function(images), clf.decision_function(images))
    with pytest.raises(ValueError, match="'timm:offline': cannot reach the hub"):
        little(backbone="timm:offline", backbone_weights="pretrained").learn(images, list("aaaabbbb"))


def test_without_timm_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"needs timm: pip install 'scail\[timm\]'"):
        start_network("timm:tiny", "pretrained", 3)


def test_a_classifier_with_packaged_weights_is_saved_and_loaded(tmp_path):
    name = "efficientnet-lite0@32"
    if not has_pretrained(name):
        pytest.skip(f"the package with the weights of {name} is not installed")
    images, labels = little_images("a", "b")
    clf = little(backbone=name, backbone_weights="pretrained").learn(images, labels)
    again = IncrementalClassifier.load(clf.save(tmp_path / "m") and tmp_path / "m")
    assert again.model_.learned.network.name == name
    assert np.array_equal(again.decision_function(images), clf.decision_function(images))
