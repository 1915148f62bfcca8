"""EfficientNet-Lite: how the networks are built, by name, and their fresh weights.

Mobile blocks without squeeze-and-excite, ReLU6 throughout; stem and head have the same width in every size.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.networks.resnet import MeanOverImage, initialise, unfilled

_STEM, _HEAD = 32, 1280
_NAME = re.compile(r"(efficientnet-lite[0-9])(?:@([1-9][0-9]{0,3}))?")
LEAST_SIDE, MOST_SIDE = 8, 1024
"""Pixels a side that a name may ask for, as in efficientnet-lite0@224."""


@dataclass(frozen=True)
class Scaling:
    """How much wider and deeper than the smallest one; `describe` is its line in listings."""

    width: float
    depth: float
    describe: str


class MobileStage(NamedTuple):
    """Blocks of the same width; the first one has the stride."""

    repeats: int
    kernel: int
    stride: int
    expand: int
    width: int


_STAGES = (
    MobileStage(1, 3, 1, 1, 16),
    MobileStage(2, 3, 2, 6, 24),
    MobileStage(2, 5, 2, 6, 40),
    MobileStage(3, 3, 2, 6, 80),
    MobileStage(3, 5, 1, 6, 112),
    MobileStage(4, 5, 2, 6, 192),
    MobileStage(1, 3, 1, 6, 320),
)
EFFICIENTNETS: dict[str, Scaling] = {
    "efficientnet-lite0": Scaling(1.0, 1.0, "EfficientNet-Lite0, for 224 pixels; weights of ImageNet"),
    "efficientnet-lite1": Scaling(1.0, 1.1, "EfficientNet-Lite1, for 240 pixels; weights of ImageNet"),
    "efficientnet-lite2": Scaling(1.1, 1.2, "EfficientNet-Lite2, for 260 pixels; weights of ImageNet"),
}


class SameConv(nn.Conv2d):
    """A convolution whose output has the input's size divided by the stride, rounded up: TensorFlow's 'SAME'."""

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W -> N x outputs x H/stride x W/stride."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:
            return F.conv2d(x, self.weight, padding=kernel // 2, groups=self.groups)
        (top, bottom), (left, right) = (same_padding(int(side), kernel, stride) for side in x.shape[2:])
        return F.conv2d(F.pad(x, (left, right, top, bottom)), self.weight, stride=stride, groups=self.groups)


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels before and after; an odd one goes to the end.

    >>> same_padding(224, 3, 2), same_padding(33, 3, 2), same_padding(14, 5, 2)
    ((0, 1), (1, 1), (1, 2))
    """
    outputs = -(-side // stride)
    total = max((outputs - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


class ConvNorm(nn.Module):
    """Convolution, batch norm, and ReLU6 unless it is left out."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> None:
        super().__init__()
        self.conv = SameConv(inputs, outputs, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W -> N x outputs x H/stride x W/stride."""
        x = self.norm(self.conv(x))
        return F.relu6(x, inplace=True) if self.relu else x


class MobileBlock(nn.Module):
    """Widen (1x1), convolve each channel alone, narrow (1x1); the input is added where it has the output's shape."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        inside = inputs * expand
        self.expand = ConvNorm(inputs, inside) if expand > 1 else nn.Identity()
        self.depthwise = ConvNorm(inside, inside, kernel, stride, groups=inside)
        self.project = ConvNorm(inside, outputs, relu=False)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W -> N x outputs x H/stride x W/stride."""
        out: Tensor = self.project(self.depthwise(self.expand(x)))
        return out + x if self.shortcut else out


class EfficientNetLite(nn.Module):
    """Stem, stages of mobile blocks, head, and the mean over the image; for images of any size.

    With `side`, images are scaled to side x side pixels first. Grey images are taken as three equal channels.
    """

    shows_maps = True

    def __init__(self, scaling: Scaling, side: int | None = None) -> None:
        super().__init__()
        self.side = side
        self.stem = ConvNorm(3, _STEM, 3, 2)
        blocks, inputs = [], _STEM
        self.ends = set[int]()
        for n, stage in enumerate(_STAGES):
            outputs = scaled_width(stage.width, scaling.width)
            at_an_end = n in (0, len(_STAGES) - 1)  # these two stages are never deeper
            for b in range(stage.repeats if at_an_end else scaled_depth(stage.repeats, scaling.depth)):
                blocks.append(MobileBlock(inputs, outputs, stage.kernel, 1 if b else stage.stride, stage.expand))
                inputs = outputs
            self.ends.add(len(blocks) - 1)
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNorm(inputs, _HEAD)

    def forward(self, x: Tensor, maps: list[Tensor] | None = None) -> Tensor:
        """N x 1 or 3 x H x W -> N x D; what each stage of blocks gives goes into `maps`."""
        x = self._begun(x)
        x = self.head(self.blocks(x) if maps is None else self._showing(x, maps))
        return x.mean((2, 3))

    def _begun(self, x: Tensor) -> Tensor:
        """Images of the network's own size, in three channels, and through the stem."""
        if self.side is not None:
            x = F.interpolate(x, (self.side, self.side), mode="bilinear", align_corners=False)
        if x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        begun: Tensor = self.stem(x)
        return begun

    def pieces(self) -> list[Callable[[Tensor], Tensor]]:
        """What `forward` does, one after the other: the stem, the stages, and the mean with the head."""
        ends = sorted(self.ends)
        begins = [0, *(end + 1 for end in ends)]
        stages = [self.blocks[a : b + 1] for a, b in zip(begins, ends, strict=False)]
        return [self._begun, *stages, lambda x: self.head(x).mean((2, 3))]

    def another_top(self, width: int) -> nn.Module:
        """One more head, of so many channels: what the last piece takes in, N x width out."""
        return nn.Sequential(ConvNorm(self.head.conv.in_channels, width), MeanOverImage())

    def _showing(self, x: Tensor, maps: list[Tensor]) -> Tensor:
        """What all blocks give; what each stage gives goes into `maps`."""
        for n, block in enumerate(self.blocks):
            x = block(x)
            if n in self.ends:
                maps.append(x)
        return x


def scaled_width(width: int, factor: float) -> int:
    """The nearest multiple of 8, but never less than 90 % of what was asked for.

    >>> [scaled_width(width, 1.1) for width in (16, 24, 40, 320)]
    [16, 24, 48, 352]
    """
    wanted = width * factor
    nearest = max(8, int(wanted + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * wanted else nearest + 8


def scaled_depth(repeats: int, factor: float) -> int:
    """So many blocks, rounded up.

    >>> scaled_depth(2, 1.0), scaled_depth(2, 1.1)
    (2, 3)
    """
    return -int(-(repeats * factor) // 1)


def lite_name(name: str) -> tuple[str, int | None] | None:
    """The network and the side that images are scaled to, if any; None if the name is not one of these networks.

    >>> lite_name("efficientnet-lite0@224"), lite_name("efficientnet-lite1"), lite_name("efficientnet-lite0@7")
    (('efficientnet-lite0', 224), ('efficientnet-lite1', None), None)
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] not in EFFICIENTNETS:
        return None
    side = int(match[2]) if match[2] else None
    return (match[1], side) if side is None or LEAST_SIDE <= side <= MOST_SIDE else None


def create_efficientnet_lite(name: str, channels: int, generator: Generator) -> tuple[nn.Module, int]:
    """The EfficientNet-Lite of this name with fresh weights, and how many features it gives."""
    found = lite_name(name)
    if found is None:
        raise ValueError(f"not an EfficientNet-Lite: {name!r}; known: {', '.join(EFFICIENTNETS)}")
    if channels not in (1, 3):
        raise ValueError(f"network {name!r}: images of {channels} channels; it takes 1 or 3")
    scaling, side = EFFICIENTNETS[found[0]], found[1]
    backbone = unfilled(lambda: EfficientNetLite(scaling, side))
    initialise(backbone, generator)
    return backbone, _HEAD
