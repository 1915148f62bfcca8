"""The one place that makes an onnxruntime session. No torch is imported."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

_EXACT = "session.x64quantprecision"


def onnx_session(graph: bytes, threads: int) -> Any:
    """A session on the CPU; 0 threads: as many as there are cores.

    A graph in whole numbers of 8 bits gives the same on every processor. Without VNNI, sums of 8 bits overflow in
    onnxruntime's quickest way: then it takes a slower one.
    """
    return _session(graph, threads, exact=b"QuantizeLinear" in graph and _sums_overflow())


def _session(graph: bytes, threads: int, exact: bool) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors only
    if exact:
        options.add_session_config_entry(_EXACT, "1")
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=1)
def _sums_overflow() -> bool:
    """Whether they do on this processor: the largest product there is, whose result is known."""
    large, small = np.full((16, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    (found,) = _session(_product(), 1, exact=False).run(None, {"large": large, "small": small})
    return bool((found != 64 * 255 * 127).any())


def _product() -> bytes:
    from onnx import TensorProto, helper

    sizes = {"large": (TensorProto.UINT8, (16, 64)), "small": (TensorProto.INT8, (64, 16))}
    given = [helper.make_tensor_value_info(name, kind, size) for name, (kind, size) in sizes.items()]
    result = helper.make_tensor_value_info("sums", TensorProto.INT32, (16, 16))
    step = helper.make_node("MatMulInteger", list(sizes), ["sums"])
    graph = helper.make_graph([step], "product", given, [result])
    opset = helper.make_opsetid("", 18)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())
