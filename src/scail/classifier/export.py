"""A classifier as an ONNX file: uint8 images in, scores out, for every head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.classifier.model import Model
from scail.heads import LinearHead
from scail.networks.network import Network
from scail.networks.onnx_features import exported_graph


class Scorer(nn.Module):
    """The network and a head on it, without steps that change a tensor in place: what an exporter can follow."""

    def __init__(self, network: Network, head: LinearHead) -> None:
        super().__init__()
        self.network, self.head = network, head

    def forward(self, images: Tensor) -> Tensor:
        """N x C scores of N uint8 images, as `LinearHead.scores` gives them."""
        head, features = self.head, self.network.features(images)
        scores = F.linear(F.normalize(features, dim=1) if head.unit_features else features, head.weight_CD, head.bias_C)
        is_past = torch.arange(scores.shape[1]) < head.past
        if head.past_factor_P is not None and head.past:
            factor_C = torch.ones(scores.shape[1])
            factor_C[: head.past] = head.past_factor_P
            new_wins = (scores.argmax(1) >= head.past)[:, None]
            scores = torch.where(new_wins & is_past, scores * factor_C, scores)
        if head.candidates is not None and head.past > head.candidates:
            assert head.raw_weight_CD is not None and head.raw_bias_C is not None
            raw = F.linear(features, head.raw_weight_CD[: head.past], head.raw_bias_C[: head.past])
            chosen = F.one_hot(raw.topk(head.candidates, dim=1).indices, scores.shape[1]).sum(1) > 0
            scores = torch.where(is_past & ~chosen, torch.full((), -torch.inf), scores)
        return scores


def export_onnx(model: Model, path: Path) -> None:
    """Write the file, in one step, with the class names in its metadata."""
    try:
        import onnx
    except ImportError as error:
        raise ValueError("the export needs onnx: pip install 'scail[onnx]'") from error
    from scail.storage.atomic import write_bytes

    data = _with_names(onnx, _exported(model), model)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, data)


def _exported(model: Model) -> bytes:
    shape = model.settings.shape
    network = model.learned.network.clone().eval().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    # Two images, so that nothing takes the first axis for a one.
    images = torch.zeros(2, shape.channels, shape.height, shape.width, dtype=torch.uint8)
    return exported_graph(Scorer(network, model.head()), images, "scores")


def _with_names(onnx: Any, data: bytes, model: Model) -> bytes:
    found = onnx.load_from_string(data)
    settings = model.settings
    told = {
        "classes": json.dumps(model.classes, ensure_ascii=False), "method": settings.method,
        "input": f"uint8, n x {settings.shape.channels} x {settings.shape.height} x {settings.shape.width}, 0 to 255",
    }  # fmt: skip
    for key, value in told.items():
        entry = found.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.checker.check_model(found)
    return bytes(found.SerializeToString())
