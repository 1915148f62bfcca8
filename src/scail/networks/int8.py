"""A network that does not move any more, in whole numbers of 8 bits: features in half the time on a CPU.

How large its values get is told by images, once. The graph that comes of it is then the network: its features are
others than those in 32 bits, and what was learned with one kind means nothing to the other.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scail.networks.network import Network
from scail.networks.onnx_features import features_digest, frozen_features, kept_graph

MOST_TOLD = 100
"""Images that calibrate: more change nothing."""
_BATCH = 8
_STEPS = ["Conv", "Clip", "Relu", "Add"]
_OF = "network"  # where the graph names the weights that it was made of
_DEFAULT_DOMAINS = ("", "ai.onnx")


def in_int8(network: Network, images: Tensor) -> Network:
    """This network with a graph in 8 bits, which these images calibrate; same images, same bits."""
    if not find_spec("onnxruntime"):
        raise ValueError("int8 needs onnxruntime: pip install onnxruntime")
    if len(images) == 0:
        raise ValueError("int8: there is no image to calibrate with")
    height, width = images.shape[2:]
    made = network.clone()
    made.int8 = None
    frozen_features(made, height, width)  # its graph is checked and kept
    rows = torch.linspace(0, len(images) - 1, min(len(images), MOST_TOLD)).round().long()
    graph = quantised(kept_graph(made, height, width), images[rows], features_digest(made))
    if graph is None:
        raise ValueError(f"int8: network {network.name} has no convolutions, and gains nothing in 8 bits; leave it out")
    made.int8 = graph
    return made


def quantised(graph: bytes, images: Tensor, of: str = "") -> bytes | None:
    """The graph with its convolutions in 8 bits: weights by channel, activations by what these images bring about.

    None: there are no convolutions.
    """
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    whole = onnx.load_from_string(graph)
    # It has been worked over before, by the exporter; onnxruntime warns of a graph that does not say so.
    onnx.helper.set_model_props(whole, {"onnx.quant.pre_process": "onnxruntime.quant"})
    with tempfile.TemporaryDirectory(prefix="scail-int8-") as place:
        before, after = Path(place) / "before.onnx", Path(place) / "after.onnx"
        before.write_bytes(whole.SerializeToString())
        with _quiet():
            quantize_static(
                before, after, _Shown(images), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, op_types_to_quantize=_STEPS,
            )  # fmt: skip
        made = onnx.load_from_string(after.read_bytes())
    if not any(node.op_type == "QuantizeLinear" for node in made.graph.node):
        return None
    del made.metadata_props[:]
    onnx.helper.set_model_props(made, {_OF: of})
    return bytes(made.SerializeToString(deterministic=True))


@contextmanager
def _quiet() -> Iterator[None]:
    """onnxruntime remarks on biases that stay in 32 bits, which is well; whoever listens already still hears it."""
    nowhere = logging.NullHandler()
    logging.root.addHandler(nowhere)
    try:
        yield
    finally:
        logging.root.removeHandler(nowhere)


class _Shown:
    """Images, a batch at a time, as onnxruntime asks for them while it calibrates."""

    def __init__(self, images: Tensor) -> None:
        self._batches = iter(images.cpu().contiguous().split(_BATCH))

    def get_next(self) -> dict[str, Any] | None:
        """The next batch; None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {"images": batch.numpy()}


def check_int8_graph(graph: bytes, network: Network, height: int, width: int) -> None:
    """A ValueError unless this is a graph that `in_int8` can have made of this network, for images of this size."""
    import onnx

    try:
        whole = onnx.load_from_string(graph)
    except Exception as error:  # protobuf's own, which has no types
        raise ValueError(f"not an ONNX file ({error})") from error
    if any(not _plain(node) for node in whole.graph.node) or whole.functions:
        raise ValueError("has steps that no network in 8 bits has")
    if whole.graph.sparse_initializer or any(_elsewhere(value) for value in whole.graph.initializer):
        raise ValueError("has values that are in another file; none is opened")
    try:
        onnx.checker.check_model(whole)
    except onnx.checker.ValidationError as error:
        raise ValueError(f"not a sound ONNX file ({str(error)[:200]})") from error
    taken = [(value.name, _size(value)) for value in whole.graph.input]
    given = [(value.name, _size(value)[1:]) for value in whole.graph.output]
    if [(name, size[1:]) for name, size in taken] != [("images", [network.channels, height, width])]:
        raise ValueError(f"takes {taken}, expected images of {network.channels} x {height} x {width}")
    if given != [("features", [network.feature_size])]:
        raise ValueError(f"gives {given}, expected {network.feature_size} features")
    if {entry.key: entry.value for entry in whole.metadata_props}.get(_OF) != features_digest(network):
        raise ValueError("is not of the network beside it")


def _plain(node: Any) -> bool:
    """Whether it is a step of ONNX itself, without a graph inside and with its values at hand."""
    inner = any(given.HasField("g") or len(given.graphs) for given in node.attribute)
    values = [value for given in node.attribute for value in (given.t, *given.tensors)]
    return node.domain in _DEFAULT_DOMAINS and not inner and not any(map(_elsewhere, values))


def _elsewhere(value: Any) -> bool:
    return bool(value.external_data) or value.data_location != 0


def _size(value: Any) -> list[int]:
    """A value's dimensions; 0 where any number is."""
    return [axis.dim_value for axis in value.type.tensor_type.shape.dim]
