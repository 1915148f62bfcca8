"""A network in whole numbers of 8 bits: made of images, checked when it is read."""

from __future__ import annotations

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from scail.networks import int8
from scail.networks.int8 import check_int8_graph, in_int8
from scail.networks.network import create_network, extract_features
from scail.networks.onnx_features import features_digest, features_graph, onnx_features
from scail.runtime import onnx_session
from scail.runtime.seeds import generator_for


def images_of(count, seed=0):
    return torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8, generator=generator_for(seed, "images"))


def network_of(name="resnet8", seed=0):
    network = create_network(name, 3, 2, generator_for(seed, "weights")).eval()
    network.mean, network.std = torch.full((3,), 127.0), torch.full((3,), 74.0)
    return network


@pytest.fixture(scope="module")
def network():
    return network_of()


@pytest.fixture(scope="module")
def narrow(network):
    return in_int8(network, images_of(40))


def test_same_images_same_bits_and_other_images_others(network, narrow):
    assert network.int8 is None and narrow.int8 is not None
    again = in_int8(network, images_of(40))
    assert again.int8 == narrow.int8 and features_digest(again) == features_digest(narrow)
    other = in_int8(network, images_of(40) // 2)
    assert other.int8 != narrow.int8
    assert len({features_digest(one) for one in (network, narrow, other)}) == 3


def test_convolutions_are_in_8_bits_and_features_are_near_those_in_32(network, narrow):
    graph = onnx.load_from_string(narrow.int8).graph
    weights = {v.name: v for v in graph.initializer if v.data_type == TensorProto.INT8}
    fed = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    assert convolutions and all(fed[node.input[1]] in weights for node in convolutions)
    images = images_of(24, seed=1)
    found, expected = onnx_features(narrow, images), extract_features(network, images)
    assert 0 < float((found - expected).norm() / expected.norm()) < 0.1


def test_not_a_bit_depends_on_how_many_images_there_are(narrow):
    images = images_of(19, seed=1)
    whole = onnx_features(narrow, images)
    assert torch.equal(torch.cat([onnx_features(narrow, part) for part in images.split(3)]), whole)
    assert torch.equal(onnx_features(narrow.clone(), images), whole)


def test_a_bounded_number_of_images_spread_over_all_of_them_calibrates(network, monkeypatch):
    shown = []
    monkeypatch.setattr(int8, "quantised", lambda graph, images, of: shown.append(images) or b"graph")
    images = images_of(250)
    in_int8(network, images)
    assert len(shown[0]) == int8.MOST_TOLD
    assert torch.equal(shown[0][0], images[0]) and torch.equal(shown[0][-1], images[-1])


def test_what_cannot_be_in_8_bits_is_an_error(network, monkeypatch):
    with pytest.raises(ValueError, match="int8: network mlp has no convolutions"):
        in_int8(network_of("mlp"), torch.zeros(4, 3, 28, 28, dtype=torch.uint8))
    with pytest.raises(ValueError, match="no image to calibrate with"):
        in_int8(network, images_of(0))
    monkeypatch.setattr(int8, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="int8 needs onnxruntime"):
        in_int8(network, images_of(4))


def external(graph):
    value = graph.graph.initializer[0]
    value.ClearField("raw_data")
    value.data_location = TensorProto.EXTERNAL
    value.external_data.add(key="location", value="../../etc/passwd")


def external_in_a_step(graph):
    value = TensorProto(data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    value.external_data.add(key="location", value="secret")
    graph.graph.node.append(helper.make_node("Constant", [], ["more"], value=value))


def inner_graph(graph):
    inner = helper.make_graph([], "inner", [], [])
    graph.graph.node.append(helper.make_node("If", ["images"], ["more"], then_branch=inner, else_branch=inner))


def other_domain(graph):
    graph.graph.node[0].domain = "com.microsoft"


def other_size(graph):
    graph.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 9


def fewer_features(graph):
    graph.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5


def another_name(graph):
    graph.metadata_props[0].value = "0" * 64


def unknown_step(graph):
    graph.graph.node[0].op_type = "Nonsense"


CRAFTED = {
    external: "values that are in another file", external_in_a_step: "steps that no network in 8 bits has",
    inner_graph: "steps that no network in 8 bits has", other_domain: "steps that no network in 8 bits has",
    other_size: "expected images of 3 x 8 x 8", fewer_features: "expected 64 features",
    another_name: "not of the network beside it", unknown_step: "not a sound ONNX file",
}  # fmt: skip


@pytest.mark.parametrize("craft", CRAFTED, ids=lambda craft: craft.__name__)
def test_a_graph_that_was_not_made_of_this_network_is_an_error(craft, network, narrow):
    check_int8_graph(narrow.int8, network, 8, 8)
    graph = onnx.load_from_string(narrow.int8)
    craft(graph)
    with pytest.raises(ValueError, match=CRAFTED[craft]):
        check_int8_graph(graph.SerializeToString(), network, 8, 8)


@pytest.mark.parametrize("content", [b"", b"no graph", bytes(range(256))])
def test_what_is_no_graph_is_an_error(content, network):
    with pytest.raises(ValueError, match=r"not an? |steps|takes"):
        check_int8_graph(content, network, 8, 8)


def test_a_graph_of_another_network_is_an_error(narrow):
    with pytest.raises(ValueError, match="not of the network beside it"):
        check_int8_graph(narrow.int8, network_of(seed=1), 8, 8)


def test_where_sums_overflow_the_slower_way_gives_the_same_bits(narrow, network, monkeypatch):
    """That way is taken here whatever the processor is."""
    images = images_of(24, seed=1).numpy()
    plain = features_graph(network, 8, 8)

    def asked(session):
        try:
            return session.get_session_options().get_session_config_entry("session.x64quantprecision")
        except RuntimeError:  # not asked for
            return None

    monkeypatch.setattr(onnx_session, "_sums_overflow", lambda: False)
    quick = onnx_session.onnx_session(narrow.int8, 1)
    monkeypatch.setattr(onnx_session, "_sums_overflow", lambda: True)
    exact = onnx_session.onnx_session(narrow.int8, 1)
    assert [asked(one) for one in (quick, exact, onnx_session.onnx_session(plain, 1))] == [None, "1", None]
    monkeypatch.undo()
    found, slower = (one.run(None, {"images": images})[0] for one in (quick, exact))
    if not onnx_session._sums_overflow():
        assert (found == slower).all()


def test_whether_sums_overflow_is_told_by_a_sum(monkeypatch):
    class Saturated:
        def run(self, outputs, given):
            return [(given["large"].astype(int) @ given["small"].astype(int)) // 2]

    class Right:
        def run(self, outputs, given):
            return [given["large"].astype(int) @ given["small"].astype(int)]

    for session, overflows in ((Saturated(), True), (Right(), False)):
        monkeypatch.setattr(onnx_session, "_session", lambda *given, session=session, **more: session)
        assert onnx_session._sums_overflow.__wrapped__() is overflows
