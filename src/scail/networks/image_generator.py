"""ImageGenerator: noise and a class -> an image; and the critic that it learns from (a small conditional WGAN).

Shapes: N images, Z numbers of noise, K classes, F features of the critic.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.networks.resnet import unfilled

NOISE, WIDTH = 64, 16
"""Numbers of noise, and channels next to the image."""
MOST_SIDE = 64
"""Pixels of its images at most: larger ones are beyond so small a network."""
MOST_LAYERS = 3
LEAKY = 0.2


class ImageShape(NamedTuple):
    """What its images are, and how wide it is."""

    channels: int
    height: int
    width: int
    base: int = WIDTH
    """Channels of the layer next to the image; each layer farther away has twice as many."""

    @property
    def layers(self) -> int:
        """How often the size is doubled: from 2 pixels or more, three times at most."""
        return min(MOST_LAYERS, max(1, int(math.log2(max(4, min(self.height, self.width)) / 2))))

    @property
    def start(self) -> tuple[int, int]:
        """Pixels that it begins with; what is too much in the end is cut off."""
        times = 2**self.layers
        return -(-self.height // times), -(-self.width // times)

    @property
    def widths(self) -> list[int]:
        """Channels of each layer, that next to the image last."""
        return [self.base * 2**n for n in reversed(range(self.layers))]


class ConditionalNorm(nn.Module):
    """Batch norm whose scale and shift are those of the image's class."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.scale = nn.Embedding(classes, channels)
        self.shift = nn.Embedding(classes, channels)

    def forward(self, maps: Tensor, labels_N: Tensor) -> Tensor:
        """The maps, normalised, scaled and shifted."""
        scale, shift = self.scale(labels_N)[:, :, None, None], self.shift(labels_N)[:, :, None, None]
        found: Tensor = self.norm(maps) * scale + shift
        return found


class ImageGenerator(nn.Module):
    """N x Z noise and N classes -> N x channels x H x W in -1 to 1. A class has a map of its own to begin with, and
    scales and shifts of its own."""

    def __init__(self, shape: ImageShape, classes: int) -> None:
        super().__init__()
        self.shape, self.classes, widths = shape, classes, shape.widths
        high, wide = shape.start
        self.first = nn.Linear(NOISE, widths[0] * high * wide, bias=False)
        self.start = nn.Embedding(classes, widths[0] * high * wide)
        self.layers = nn.ModuleList(
            nn.ConvTranspose2d(before, after, 4, 2, 1) for before, after in pairwise([*widths, shape.channels])
        )
        self.norms = nn.ModuleList(ConditionalNorm(channels, classes) for channels in widths)

    def forward(self, noise_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """The images."""
        maps: Tensor = (self.first(noise_NZ) + self.start(labels_N)).view(len(noise_NZ), -1, *self.shape.start)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            maps = layer(torch.relu(norm(maps, labels_N)))
        return torch.tanh(maps[:, :, : self.shape.height, : self.shape.width])

    @torch.no_grad()
    def drawn(self, labels_N: Tensor, generator: Generator) -> Tensor:
        """One uint8 image for each label, as evaluation has them: none depends on the others."""
        device, made = self.first.weight.device, []
        self.eval()
        for labels in labels_N.split(256):
            noise = torch.randn(len(labels), NOISE, generator=generator)
            pixels = (self(noise.to(device), labels.to(device)) + 1) * 127.5
            made.append(pixels.round().clamp(0, 255).to(torch.uint8).cpu())
        return torch.cat([torch.empty(0, *self.shape[:3], dtype=torch.uint8), *made])


class Critic(nn.Module):
    """N x channels x H x W and N classes -> how far each image is a real one of its class. It has no batch norm: the
    penalty on its gradient is for each image alone."""

    def __init__(self, shape: ImageShape, classes: int) -> None:
        super().__init__()
        high, wide = shape.start
        self.padding = (0, wide * 2**shape.layers - shape.width, 0, high * 2**shape.layers - shape.height)
        widths = [*reversed(shape.widths)]
        self.layers = nn.ModuleList(
            nn.Conv2d(before, after, 4, 2, 1) for before, after in pairwise([shape.channels, *widths])
        )
        self.last = nn.Linear(widths[-1] * high * wide, classes)

    def forward(self, pixels: Tensor, labels_N: Tensor) -> Tensor:
        """N scores: each class has a row of its own in the last layer."""
        maps = F.pad(pixels, self.padding)
        for layer in self.layers:
            maps = F.leaky_relu(layer(maps), LEAKY)
        found: Tensor = self.last(maps.flatten(1)).gather(1, labels_N[:, None])
        return found[:, 0]


def image_generator(shape: ImageShape, classes: int) -> ImageGenerator:
    """One whose weights are still to be filled in."""
    return unfilled(lambda: ImageGenerator(shape, classes))


def drawn_pair(shape: ImageShape, classes: int, generator: Generator) -> tuple[ImageGenerator, Critic]:
    """A fresh generator and its critic."""
    pair = image_generator(shape, classes), unfilled(lambda: Critic(shape, classes))
    for network in pair:
        for module in network.modules():
            _fill(module, generator)
    return pair


@torch.no_grad()
def _fill(module: nn.Module, generator: Generator) -> None:
    """Weights as He et al. draw them; batch norm changes nothing."""
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        weight = module.weight
        inputs = weight[0].numel() if not isinstance(module, nn.ConvTranspose2d) else weight[:, 0].numel() / 4
        weight.copy_(torch.randn(weight.shape, generator=generator) * math.sqrt(2 / inputs))
        if module.bias is not None:
            module.bias.zero_()
    elif isinstance(module, ImageGenerator):  # classes begin as far apart as noise does
        start = module.start.weight
        start.copy_(torch.randn(start.shape, generator=generator) * math.sqrt(2))
    elif isinstance(module, ConditionalNorm):
        module.scale.weight.fill_(1)
        module.shift.weight.zero_()
        module.norm.reset_running_stats()
