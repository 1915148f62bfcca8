"""Columns side by side, one more for each state, each fed by those before it. All but the newest are frozen.

Every column has pieces, one behind the other: stages of a ResNet, layers of a perceptron. An adapter takes what all
earlier columns show after a piece, and adds to what the newest one shows there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.networks.grown import Grown, parts_of
from scail.networks.pieces import pieces_of
from scail.networks.resnet import unfilled

_LARGEST_SCALE = 0.1
"""Scales of earlier columns begin between 0 and this."""


class Adapter(nn.Module):
    """What earlier columns show, each times a learned scale; brought to the size of one of them; ReLU; a layer."""

    def __init__(self, columns: int, size: int, maps: bool) -> None:
        super().__init__()
        layer: Callable[[int, int], nn.Module] = (lambda a, b: nn.Conv2d(a, b, 1)) if maps else nn.Linear
        self.scale = nn.Parameter(torch.zeros(columns))
        self.reduce, self.add = layer(columns * size, size), layer(size, size)

    def forward(self, shown: Sequence[Tensor]) -> Tensor:
        """What is added to the newest column's."""
        scaled = [scale * one for scale, one in zip(self.scale.unbind(), shown, strict=True)]
        added: Tensor = self.add(F.relu(self.reduce(torch.cat(scaled, 1))))
        return added


class Columns(Grown):
    """The features of all columns, one behind the other. The newest column and its adapters alone train."""

    def __init__(self, parts: Iterable[nn.Module], adapters: Iterable[nn.ModuleList]) -> None:
        super().__init__(parts)
        self.adapters = nn.ModuleList(adapters)
        """Of each column but the first: one behind each of its pieces."""
        self.adapters[:-1].requires_grad_(False)

    def forward(self, pixels: Tensor) -> Tensor:
        """N x channels x H x W -> N x (columns * D)."""
        columns, adapters = [pieces_of(part) for part in self.parts], [[*each.children()] for each in self.adapters]
        shown = [pixels] * len(columns)
        for n in range(len(columns[0])):
            after = [pieces[n](one) for pieces, one in zip(columns, shown, strict=True)]
            shown = [after[0], *(after[k] + adapters[k - 1][n](after[:k]) for k in range(1, len(after)))]
        return torch.cat(shown, 1)


def with_column(backbone: nn.Module, column: nn.Module, channels: int, draw: Generator) -> Columns:
    """With this column behind those that there are, and fresh adapters for it."""
    columns = parts_of(backbone)
    before = [*backbone.adapters] if isinstance(backbone, Columns) else []
    fresh = _adapters(len(columns), sizes_of(column, channels))
    for adapter in fresh.modules():
        if isinstance(adapter, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(adapter.weight, nonlinearity="relu", generator=draw)
            nn.init.constant_(adapter.get_parameter("bias"), 0)
        elif isinstance(adapter, Adapter):
            nn.init.uniform_(adapter.scale, 0, _LARGEST_SCALE, generator=draw)
    return Columns([*columns, column], [*before, fresh])


def _adapters(columns: int, sizes: Sequence[tuple[int, bool]]) -> nn.ModuleList:
    return unfilled(lambda: nn.ModuleList(Adapter(columns, size, maps) for size, maps in sizes))


def sizes_of(column: nn.Module, channels: int) -> list[tuple[int, bool]]:
    """How many channels it shows after each of its pieces, and whether these are maps."""
    sizes, shown = [], torch.zeros(1, channels, 32, 32)
    training = column.training
    with torch.no_grad():
        column.eval()
        for piece in pieces_of(column):
            shown = piece(shown)
            sizes.append((shown.shape[1], shown.ndim == 4))
    column.train(training)
    return sizes


def columns_like(blank: nn.Module, count: int, tensors: Mapping[str, Tensor]) -> Columns:
    """An empty backbone of so many columns, with adapters for these tensors."""
    adapters = []
    for k in range(count - 1):
        layers = [tensors[name] for n in range(len(tensors)) if (name := f"adapters.{k}.{n}.add.weight") in tensors]
        adapters.append(_adapters(k + 1, [(layer.shape[0], layer.ndim == 4) for layer in layers]))
    return Columns([copy.deepcopy(blank) for _ in range(count)], adapters)
