"""A backbone that grows: extractors side by side, one more for each state. All but the newest are frozen."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Grown(nn.Module):
    """The features of all parts, one behind the other. The newest part alone trains, and normalises by batches."""

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.parts[:-1].requires_grad_(False).eval()

    def forward(self, pixels: Tensor) -> Tensor:
        """N x channels x H x W -> N x (parts * D)."""
        return torch.cat([part(pixels) for part in self.parts], 1)

    def train(self, mode: bool = True) -> Grown:
        """Parts that are held stay in evaluation mode."""
        super().train(mode)
        self.parts[:-1].eval()
        return self


def parts_of(backbone: nn.Module) -> list[nn.Module]:
    """The extractors of a backbone, oldest first."""
    return list(backbone.parts) if isinstance(backbone, Grown) else [backbone]


def with_one_more(backbone: nn.Module, like: int = -1) -> Grown:
    """With one more extractor, which begins as a copy of the newest; or of the one with this number."""
    parts = parts_of(backbone)
    newest = copy.deepcopy(parts[like]).requires_grad_(True)
    return Grown([*parts, newest])
