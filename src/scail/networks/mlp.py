"""A multilayer perceptron for small grey images, as benchmarks on MNIST use it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.networks.resnet import Inner, unfilled

MLPS = {"mlp": "two hidden layers of 400 units on 28 x 28 pixels"}
_SIDE, _HIDDEN = 28, 400


class Perceptron(nn.Module):
    """Two hidden layers. Images of another size are brought to 28 x 28 pixels by means over regions."""

    shows_maps = True

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels * _SIDE * _SIDE, _HIDDEN)
        self.fc2 = nn.Linear(_HIDDEN, _HIDDEN)

    def forward(self, pixels: Tensor, maps: list[Tensor] | None = None) -> Tensor:
        """N x channels x H x W -> N x 400; each layer goes into `maps`, as a map of one pixel."""
        hidden = self._hidden(pixels)
        features = torch.relu(self.fc2(hidden))
        if maps is not None:
            maps += [hidden[:, :, None, None], features[:, :, None, None]]
        return features

    def _hidden(self, pixels: Tensor) -> Tensor:
        if pixels.shape[2:] != (_SIDE, _SIDE):
            pixels = F.adaptive_avg_pool2d(pixels, _SIDE)
        return torch.relu(self.fc1(pixels.flatten(1)))

    def pieces(self) -> list[Callable[[Tensor], Tensor]]:
        """What `forward` does, one after the other."""
        return [self._hidden, lambda hidden: torch.relu(self.fc2(hidden))]

    def another_top(self, width: int) -> nn.Module:
        """One more last layer, of so many units."""
        return nn.Sequential(nn.Linear(_HIDDEN, width), nn.ReLU())

    def inner(self) -> list[Inner]:
        """The units of the first layer."""
        return [Inner(self.fc1, None, self.fc2)]


def create_mlp(channels: int, generator: Generator) -> tuple[nn.Module, int]:
    """With fresh weights, and how many features it gives."""
    backbone = unfilled(lambda: Perceptron(channels))
    for layer in (backbone.fc1, backbone.fc2):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(layer.bias)
    return backbone, _HIDDEN
