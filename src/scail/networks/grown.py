"""A backbone that grows: extractors side by side, one more for each state. All but the newest are frozen.

Names of tensors say how many there are: a network that was saved is built again from them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

_PARTS = "backbone.parts."


class Grown(nn.Module):
    """The features of all parts, one behind the other. The newest part alone trains, and normalises by batches."""

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.still = False
        """The newest part is held, too."""
        self.parts[:-1].requires_grad_(False).eval()

    def forward(self, pixels: Tensor) -> Tensor:
        """N x channels x H x W -> N x (parts * D)."""
        return torch.cat([part(pixels) for part in self.parts], 1)

    def train(self, mode: bool = True) -> Grown:
        """Parts that are held stay in evaluation mode."""
        super().train(mode)
        for part in self.parts if self.still else self.parts[:-1]:
            part.eval()
        return self

    def hold(self, still: bool) -> None:
        """Hold the newest part, too; or let it train again."""
        self.still = still
        self.parts[-1].requires_grad_(not still)


def parts_of(backbone: nn.Module) -> list[nn.Module]:
    """The extractors of a backbone, oldest first."""
    return list(backbone.parts) if isinstance(backbone, Grown) else [backbone]


def with_one_more(backbone: nn.Module) -> Grown:
    """With one more extractor, which begins as a copy of the newest."""
    parts = parts_of(backbone)
    newest = copy.deepcopy(parts[-1]).requires_grad_(True)
    return Grown([*parts, newest])


def grown_like(blank: nn.Module, tensors: Mapping[str, Tensor]) -> tuple[nn.Module, int]:
    """An empty backbone for the tensors of a network, out of one for a network that did not grow; and how many times as
    many features it has."""
    count = len({key.split(".")[2] for key in tensors if key.startswith(_PARTS)})
    if count == 0:
        return blank, 1
    return Grown(copy.deepcopy(blank) for _ in range(count)), count
