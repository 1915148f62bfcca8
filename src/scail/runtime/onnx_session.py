"""The one place that makes an onnxruntime session. No torch is imported."""

from __future__ import annotations

from typing import Any


def onnx_session(graph: bytes, threads: int) -> Any:
    """A session on the CPU; 0 threads: as many as there are cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors only
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
