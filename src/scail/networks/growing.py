"""A network that grew is built again from the names of its tensors: they say how it grew, and how far."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from scail.networks.channels import as_wide_as
from scail.networks.columns import columns_like
from scail.networks.grown import Grown
from scail.networks.packed import OWNERS, packed_like
from scail.networks.widened import TOPS, widened_like

_PREFIX = "backbone."


def grown_like(blank: nn.Module, features: int, tensors: Mapping[str, Tensor]) -> tuple[nn.Module, int]:
    """An empty backbone for the tensors of a network, out of one for a network that did not grow; and how many
    features it has."""
    of_backbone = {key.removeprefix(_PREFIX): value for key, value in tensors.items() if key.startswith(_PREFIX)}
    if any(key.startswith(OWNERS) for key in of_backbone):
        return packed_like(blank, features, of_backbone)
    if any(key.startswith(TOPS) for key in of_backbone):
        return widened_like(blank, features, of_backbone, tensors.get("linear.weight", torch.empty(0, 0)).shape[-1])
    parts = numbers_after("parts.", of_backbone)
    if not parts:
        return blank, features
    if any(key.startswith("adapters.") for key in of_backbone):
        return columns_like(blank, parts, of_backbone), parts * features
    each = [as_wide_as(copy.deepcopy(blank), of_backbone, f"parts.{n}.") for n in range(parts)]
    return Grown(each), parts * features


def numbers_after(prefix: str, names: Mapping[str, Tensor]) -> int:
    """How many numbers stand in these names behind the prefix: in `parts.0.a`, `parts.0.b` and `parts.1.a` two."""
    return len({name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)})
