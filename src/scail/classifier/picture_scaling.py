"""The middle of a picture in a model's shape: one piece of ONNX graph, which learning and answering both run.

It gives what Pillow's bilinear scaling gives, but for ties of rounding: so both sides run this, and agree to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scail.runtime.onnx_session import onnx_session

if TYPE_CHECKING:
    from scail.classifier.inputs import Shape

_OPSET = 18  # the first whose Resize takes all pixels into account when it makes a picture smaller
_IR = 8  # of the same age
_GREY = (19595, 38470, 7471)  # ITU-R 601-2 in parts of 65536, as Pillow has them


class Piece:
    """Nodes of a graph and the values that stand in them, one after the other."""

    def __init__(self, prefix: str, nodes: Sequence[Any] = (), values: Sequence[Any] = ()) -> None:
        self.nodes, self.values, self._prefix = list(nodes), list(values), prefix

    def value(self, array: Any, kind: Any = None) -> str:
        """A fixed value; gives its name."""
        from onnx import numpy_helper

        name = f"{self._prefix}{len(self.values)}"
        self.values.append(numpy_helper.from_array(np.ascontiguousarray(np.asarray(array, kind)), name))
        return name

    def node(self, kind: str, *inputs: str, result: str | None = None, **given: Any) -> str:
        """A step; gives the name of its result."""
        from onnx import helper

        name = result or f"{self._prefix}{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **given))
        return name


def scaling_piece(shape: Shape, picture: str, pixels: str) -> Piece:
    """From a picture (height x width x 3, uint8) to 1 x channels x height x width, uint8, as the network takes it."""
    made = Piece("scaling/")
    height = made.node("Shape", picture, start=0, end=1)
    width = made.node("Shape", picture, start=1, end=2)
    square = shape.height == shape.width
    left, right = _middle(made, width, height, 1 if square else shape.width, 1 if square else shape.height)
    top, bottom = _middle(made, height, width, 1 if square else shape.height, 1 if square else shape.width)
    begin, end = made.node("Concat", top, left, axis=0), made.node("Concat", bottom, right, axis=0)
    middle = made.node("Slice", picture, begin, end, made.value([0, 1], np.int64))
    first = made.node("Unsqueeze", middle, made.value([0], np.int64))
    scaled = made.node(
        "Resize", first, "", "", made.value([1, shape.height, shape.width, 3], np.int64),
        mode="linear", antialias=1, exclude_outside=1,  # past the border there is nothing, as for Pillow
    )  # fmt: skip
    if shape.channels == 1:
        scaled = _grey(made, scaled)
    made.node("Transpose", scaled, result=pixels, perm=[0, 3, 1, 2])
    return made


def _middle(made: Piece, length: str, other: str, part: int, other_part: int) -> tuple[str, str]:
    """Begin and end of the middle: as much as the proportions allow, in whole pixels, of one at least."""
    doubled = made.node("Mul", other, made.value([2 * part], np.int64))
    rounded = made.node(
        "Div", made.node("Add", doubled, made.value([other_part], np.int64)), made.value([2 * other_part], np.int64)
    )
    kept = made.node("Max", made.node("Min", length, rounded), made.value([1], np.int64))
    begin = made.node("Div", made.node("Sub", length, kept), made.value([2], np.int64))
    return begin, made.node("Add", begin, kept)


def _grey(made: Piece, colour: str) -> str:
    from onnx import TensorProto

    whole = made.node("Mul", made.node("Cast", colour, to=TensorProto.INT32), made.value(_GREY, np.int32))
    total = made.node("ReduceSum", whole, made.value([3], np.int64), keepdims=1)
    half = made.node("Add", total, made.value([32768], np.int32))
    return made.node("Cast", made.node("Div", half, made.value([65536], np.int32)), to=TensorProto.UINT8)


def scaled_picture(picture: NDArray[np.uint8], shape: Shape) -> NDArray[np.uint8]:
    """height x width x channels: the middle of this picture (any height x any width x 3)."""
    (found,) = _session(shape).run(["pixels"], {"picture": np.ascontiguousarray(picture)})
    pixels: NDArray[np.uint8] = found[0].transpose(1, 2, 0)
    return pixels


@lru_cache(maxsize=8)
def _session(shape: Shape) -> Any:
    from onnx import TensorProto, helper

    outputs = [
        helper.make_tensor_value_info("pixels", TensorProto.UINT8, [1, shape.channels, shape.height, shape.width])
    ]
    graph = picture_graph("scaling", [scaling_piece(shape, "picture", "pixels")], outputs)
    return onnx_session(graph.SerializeToString(), threads=1)


def picture_graph(name: str, pieces: Sequence[Piece], outputs: Sequence[Any]) -> Any:
    """A whole graph of these pieces: `picture` in, these outputs out."""
    from onnx import TensorProto, helper

    picture = helper.make_tensor_value_info("picture", TensorProto.UINT8, ["height", "width", 3])
    nodes, values = [node for one in pieces for node in one.nodes], [value for one in pieces for value in one.values]
    graph = helper.make_graph(nodes, name, [picture], list(outputs), values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
