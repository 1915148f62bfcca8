"""A backbone whose top is widened: groups of new units beside it, on the same trunk. All of it goes on learning.

Each group of units is brought to unit length, and scaled by a number that is learned: so that new units are heard
beside old ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.networks.pieces import another_top, pieces_of
from scail.networks.resnet import initialise

TOPS = "tops."
FIRST_SCALE = 10.0


class Widened(nn.Module):
    """The units of the top, then those of each group that came later."""

    def __init__(self, trunk: nn.Module, tops: Iterable[nn.Module]) -> None:
        super().__init__()
        self.trunk, self.tops = trunk, nn.ModuleList(tops)
        self.scales = nn.Parameter(torch.full((1 + len(self.tops),), FIRST_SCALE))

    def forward(self, pixels: Tensor) -> Tensor:
        """N x channels x H x W -> N x (units of all groups)."""
        *below, top = pieces_of(self.trunk)
        shown = pixels
        for piece in below:
            shown = piece(shown)
        groups = [top(shown), *(one(shown) for one in self.tops)]
        return torch.cat([s * F.normalize(one, dim=1) for s, one in zip(self.scales.unbind(), groups, strict=True)], 1)


def with_wider_top(backbone: nn.Module, width: int, draw: Generator) -> Widened:
    """With one more group of so many units."""
    before = backbone if isinstance(backbone, Widened) else None
    trunk = before.trunk if before else backbone
    top = another_top(trunk, width)
    initialise(top, draw)
    for module in top.modules():
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=draw)
            nn.init.zeros_(module.bias)
    widened = Widened(trunk, [*(before.tops if before else ()), top])
    if before:
        with torch.no_grad():
            widened.scales[:-1] = before.scales
    return widened


def widened_like(blank: nn.Module, features: int, tensors: Mapping[str, Tensor], columns: int) -> tuple[Widened, int]:
    """An empty backbone for these tensors, whose layer has so many columns; and how many features it has."""
    groups = len({name.split(".")[1] for name in tensors if name.startswith(TOPS)})
    width = (columns - features) // groups
    if width < 1:
        raise ValueError(f"{groups} groups of units, and a layer of {columns} columns")
    return Widened(blank, [another_top(blank, width) for _ in range(groups)]), features + groups * width
