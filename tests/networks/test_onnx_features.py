"""Features by onnxruntime beside torch's."""

from __future__ import annotations

import pytest
import torch

from scail.networks import onnx_features
from scail.networks.network import create_network, extract_features
from scail.networks.onnx_features import FrozenFeatures, features_graph, frozen_features
from scail.networks.pretrained import has_pretrained, start_network
from scail.runtime.seeds import generator_for

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def images_of(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator_for(0, "images"))


def network_of(name, channels):
    if name.startswith("efficientnet"):
        if not has_pretrained(name):
            pytest.skip(f"the package with the weights of {name} is not installed")
        return start_network(name, "pretrained", channels)
    return create_network(name, channels, 2, generator_for(0, "weights"))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("efficientnet-lite0", (3, 96, 65)),
        ("efficientnet-lite0@96", (3, 32, 32)),
        ("efficientnet-lite0@96", (1, 120, 160)),
        ("resnet8", (1, 16, 16)),
    ],
)
def test_features_are_torchs_and_not_a_bit_depends_on_how_many(name, shape, threads):
    network, images = network_of(name, shape[0]).train(), images_of(19, *shape)
    frozen = FrozenFeatures(network, *shape[1:], threads=threads)
    features = frozen.of(images)
    assert network.training and features.dtype == torch.float32
    assert torch.allclose(features, extract_features(network, images), rtol=1e-4, atol=1e-4)
    for size in (1, 3):
        assert torch.equal(torch.cat([frozen.of(part) for part in images.split(size)]), features)
    assert frozen.of(images[:0]).shape == (0, network.feature_size)


def test_the_graph_takes_any_number_of_uint8_images():
    import onnx

    graph = onnx.load_from_string(features_graph(network_of("resnet8", 3), 16, 24)).graph
    (images,), (features,) = graph.input, graph.output
    dims = images.type.tensor_type.shape.dim
    assert images.type.tensor_type.elem_type == onnx.TensorProto.UINT8 and dims[0].dim_param == "n"
    assert [dim.dim_value for dim in dims[1:]] == [3, 16, 24]
    assert features.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_a_later_change_of_the_network_changes_nothing_and_makes_a_new_session():
    network, images = network_of("resnet8", 3), images_of(2, 3, 16, 16)
    frozen = frozen_features(network, 16, 16)
    before = frozen.of(images)
    network.recreate_linear(5, generator_for(1, "x"))
    assert frozen_features(network.clone(), 16, 16) is frozen  # features do not depend on the linear layer
    with torch.no_grad():
        network.backbone.conv1.weight.mul_(-1)
    other = frozen_features(network, 16, 16)
    assert other is not frozen and torch.equal(frozen.of(images), before) and not torch.equal(other.of(images), before)
    for side in range(8, 8 + onnx_features._KEPT):
        frozen_features(network, side, side)
    assert len(onnx_features._made) == onnx_features._KEPT


def test_without_onnxruntime_torch_computes_them(monkeypatch):
    monkeypatch.setattr(onnx_features, "find_spec", lambda name: None)
    network, images = network_of("resnet8", 3), images_of(19, 3, 16, 16)
    assert torch.equal(FrozenFeatures(network, 16, 16).of(images), extract_features(network, images))


def test_a_graph_is_kept_and_made_again_where_it_is_damaged(monkeypatch, tmp_path):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path))
    network, images = network_of("resnet8", 3), images_of(3, 3, 16, 16)
    before = FrozenFeatures(network, 16, 16).of(images)
    (kept,) = (tmp_path / "graphs").iterdir()
    with monkeypatch.context() as patched:
        patched.setattr("scail.networks.onnx_features.features_graph", lambda *given: pytest.fail("made again"))
        assert torch.equal(FrozenFeatures(network, 16, 16).of(images), before)
    kept.write_bytes(b"damaged")
    assert torch.equal(FrozenFeatures(network, 16, 16).of(images), before) and len(kept.read_bytes()) > 1000


def test_networks_that_scale_images_otherwise_have_other_graphs(monkeypatch, tmp_path):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path))
    one, two = (network_of(f"efficientnet-lite0@{side}", 3) for side in (32, 40))
    two.load_state_dict(one.state_dict())
    images = images_of(2, 3, 16, 16)
    assert not torch.allclose(FrozenFeatures(one, 16, 16).of(images), FrozenFeatures(two, 16, 16).of(images))


def test_other_features_than_torchs_are_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path))
    monkeypatch.setattr(FrozenFeatures, "_run", lambda self, batch: torch.ones(len(batch), self.feature_size))
    with pytest.raises(RuntimeError, match="onnxruntime computes other features of resnet8 than torch"):
        FrozenFeatures(network_of("resnet8", 3), 16, 16)


def test_images_of_another_size_are_an_error():
    with pytest.raises(ValueError, match=r"images of \(3, 8, 8\), expected \(3, 16, 16\)"):
        FrozenFeatures(network_of("resnet8", 3), 16, 16).of(images_of(1, 3, 8, 8))
