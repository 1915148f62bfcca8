"""ResNets: how they are built, by name, and their fresh weights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Layout:
    """How a ResNet is built; `describe` is its line in listings."""

    depths: tuple[int, ...]
    widths: tuple[int, ...]
    describe: str
    imagenet_stem: bool = False
    stem_stride: int = 1
    project: bool = False
    last_relu: bool = True


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut: projected (1x1), or padded with zero channels as in CIFAR ResNets."""

    def __init__(self, inputs: int, outputs: int, stride: int, project: bool, last_relu: bool = True) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.added, self.last_relu = stride, outputs - inputs, last_relu
        self.downsample = (
            nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            if project and (stride != 1 or inputs != outputs)
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W -> N x outputs x H/stride x W/stride."""
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        if self.downsample is not None:
            x = self.downsample(x)
        elif self.added or self.stride > 1:
            # Every other pixel, as by indexing, but with gradients that keep the memory layout.
            x = F.avg_pool2d(x, 1, self.stride)
            x = F.pad(x, (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))
        out += x
        return F.relu(out, inplace=True) if self.last_relu else out


class ResNet(nn.Module):
    """Stages of blocks, each but the first halving the image and widening; then the mean over the image."""

    shows_maps = True

    def __init__(self, channels: int, layout: Layout) -> None:
        super().__init__()
        widths = layout.widths
        kernel, stride, padding = (7, 2, 3) if layout.imagenet_stem else (3, layout.stem_stride, 1)
        self.conv1 = nn.Conv2d(channels, widths[0], kernel, stride, padding, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1) if layout.imagenet_stem else nn.Identity()
        self.layout = layout
        self.stages = nn.ModuleList(self._stage(s, width) for s, width in enumerate(widths))

    def _stage(self, s: int, width: int) -> nn.Sequential:
        """A stage of so many channels, behind the stage before."""
        layout, blocks = self.layout, []
        depth, inputs = layout.depths[s], layout.widths[max(0, s - 1)]
        for b in range(depth):
            last_relu = layout.last_relu or (s, b) != (len(layout.depths) - 1, depth - 1)
            blocks.append(Block(inputs, width, 2 if s and not b else 1, layout.project, last_relu))
            inputs = width
        return nn.Sequential(*blocks)

    def forward(self, x: Tensor, maps: list[Tensor] | None = None) -> Tensor:
        """N x channels x H x W -> N x D; what each stage gives goes into `maps`."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        for stage in self.stages:
            x = stage(x)
            if maps is not None:
                maps.append(x)
        return x.mean((2, 3))

    def pieces(self) -> list[Callable[[Tensor], Tensor]]:
        """What `forward` does, one after the other: the stem, the stages, and the mean with the last of them."""
        return [
            lambda x: self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True)),
            *self.stages[:-1],
            lambda x: self.stages[-1](x).mean((2, 3)),
        ]

    def another_top(self, width: int) -> nn.Module:
        """One more last stage, of so many channels: what the last piece takes in, N x width out."""
        return nn.Sequential(self._stage(len(self.stages) - 1, width), MeanOverImage())

    def inner(self) -> list[Inner]:
        """Channels that lie between two layers of a block, and nowhere else."""
        blocks: list[Any] = [block for stage in self.stages for block in stage.children()]
        return [Inner(block.conv1, block.bn1, block.conv2) for block in blocks]


class MeanOverImage(nn.Module):
    """N x D x H x W -> N x D."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean over all pixels."""
        return x.mean((2, 3))


class Inner(NamedTuple):
    """Channels inside a backbone that one layer makes, a norm may scale, and one layer reads."""

    made: nn.Conv2d | nn.Linear
    norm: nn.BatchNorm2d | None
    read: nn.Conv2d | nn.Linear


_RESNET18 = ((2, 2, 2, 2), (64, 128, 256, 512))
_CIFAR = (16, 32, 64)
NETWORKS: dict[str, Layout] = {
    "resnet18": Layout(*_RESNET18, "ResNet-18, 7x7 stem, for 224 pixels", imagenet_stem=True, project=True),
    "resnet18-3x3": Layout(*_RESNET18, "ResNet-18, 3x3 stem, for 32 pixels", project=True),
    # iCaRL's network leaves out the last ReLU: its features may be negative.
    "resnet32": Layout((5, 5, 5), _CIFAR, "iCaRL's ResNet-32 for 32 pixels, no ReLU at the end", last_relu=False),
    "resnet20": Layout((3, 3, 3), _CIFAR, "ResNet-20 for 32 pixels"),
    "resnet8": Layout((1, 1, 1), _CIFAR, "ResNet-8 for 32 pixels, made for CPUs"),
    "resnet8-half": Layout(
        (1, 1, 1), (24, 48, 96), "wider ResNet-8 whose stem halves the image, half the time of resnet8", stem_stride=2
    ),
}


MOST_WIDE = 16
_WIDE = re.compile(r"(resnet(?:8|20|32))x([1-9][0-9]?)(-half)?")


def layout_of(name: str) -> Layout | None:
    """How the ResNet of this name is built; None: there is none. `resnet8x4-half` has four times the channels of
    `resnet8`, and a stem that halves the image.

    >>> layout_of("resnet20x2").widths, layout_of("resnet8x4-half").stem_stride
    ((32, 64, 128), 2)
    """
    wide = _WIDE.fullmatch(name)
    if wide is None or not 2 <= int(wide[2]) <= MOST_WIDE:
        return NETWORKS.get(name)
    base, times = NETWORKS[wide[1]], int(wide[2])
    widths = tuple(times * width for width in base.widths)
    return replace(base, widths=widths, stem_stride=2 if wide[3] else 1)


def create_resnet(layout: Layout, channels: int, generator: Generator) -> tuple[nn.Module, int]:
    """A ResNet with fresh weights, and how many features it gives."""
    backbone = unfilled(lambda: ResNet(channels, layout))
    initialise(backbone, generator)
    return backbone, layout.widths[-1]


def unfilled(make: Callable[[], M]) -> M:
    """The module that `make` makes, its weights still to be filled in; the global random state is not touched."""
    with torch.device("meta"):  # no weights are drawn here
        module = make()
    # What `Module.to_empty` does. That function imports torch's compiler first, half a second.
    nn.Module._apply(module, lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype))
    return module


def initialise(backbone: nn.Module, generator: Generator) -> None:
    """Draw weights for convolutions, and let batch norm change nothing."""
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
            if module.groups > 1:  # torch counts the outputs of all groups; an input reaches those of one
                with torch.no_grad():
                    module.weight.mul_(math.sqrt(module.groups))
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
