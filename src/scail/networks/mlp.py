"""A multilayer perceptron for small grey images, as benchmarks on MNIST use it."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.networks.resnet import unfilled

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
        if pixels.shape[2:] != (_SIDE, _SIDE):
            pixels = F.adaptive_avg_pool2d(pixels, _SIDE)
        hidden = torch.relu(self.fc1(pixels.flatten(1)))
        features = torch.relu(self.fc2(hidden))
        if maps is not None:
            maps += [hidden[:, :, None, None], features[:, :, None, None]]
        return features


def create_mlp(channels: int, generator: Generator) -> tuple[nn.Module, int]:
    """With fresh weights, and how many features it gives."""
    backbone = unfilled(lambda: Perceptron(channels))
    for layer in (backbone.fc1, backbone.fc2):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(layer.bias)
    return backbone, _HIDDEN
