"""Backbones by name, the linear layer on top, and features from them.

Shapes: N images, C classes, D features.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.datasets.dataset import Images
from scail.datasets.images.batches import centre_batches
from scail.runtime.ranks import ALONE, Ranks

NETWORK_VERSION = 1  # raise it when a change makes other networks or features: states are then not reused
_EXTRACT_BATCH = 256


class Network(nn.Module):
    """uint8 images -> normalise -> backbone -> D features -> linear layer -> C raw scores."""

    mean: Tensor
    std: Tensor

    def __init__(self, name: str, backbone: nn.Module, feature_size: int, channels: int, num_classes: int) -> None:
        super().__init__()
        self.name, self.feature_size, self.channels = name, feature_size, channels
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))
        self.backbone = backbone
        self.linear = empty_linear(feature_size, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """N x D features of N uint8 images."""
        pixels = (images.float() - self.mean[:, None, None]) / self.std[:, None, None]
        features: Tensor = self.backbone(pixels.contiguous(memory_format=torch.channels_last))
        return features

    def forward(self, images: Tensor) -> Tensor:
        """N x C raw scores of N uint8 images."""
        scores: Tensor = self.linear(self.features(images))
        return scores

    def recreate_linear(self, num_classes: int, generator: Generator, keep_past: bool = False) -> None:
        """A fresh linear layer for `num_classes`; with `keep_past` the rows of the past classes stay as they are."""
        past = self.linear
        fresh = empty_linear(self.feature_size, num_classes).to(self.mean.device)
        bound = 1 / math.sqrt(self.feature_size)  # as torch's own default for a linear layer
        with torch.no_grad():
            for values in (fresh.weight, fresh.bias):
                values.copy_(torch.rand(values.shape, generator=generator) * (2 * bound) - bound)
            if keep_past:
                fresh.weight[: past.out_features] = past.weight
                fresh.bias[: past.out_features] = past.bias
        self.linear = fresh

    def clone(self) -> Network:
        """An independent copy."""
        return copy.deepcopy(self)


@dataclass(frozen=True)
class Plan:
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
        elif self.added:
            # Every other pixel, as by indexing, but with gradients that keep the memory layout.
            x = F.avg_pool2d(x, 1, self.stride)
            x = F.pad(x, (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))
        out += x
        return F.relu(out, inplace=True) if self.last_relu else out


class ResNet(nn.Module):
    """Stages of blocks, each but the first halving the image and widening; then the mean over the image."""

    def __init__(self, channels: int, plan: Plan) -> None:
        super().__init__()
        depths, widths = plan.depths, plan.widths
        kernel, stride, padding = (7, 2, 3) if plan.imagenet_stem else (3, plan.stem_stride, 1)
        self.conv1 = nn.Conv2d(channels, widths[0], kernel, stride, padding, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1) if plan.imagenet_stem else nn.Identity()
        stages, inputs = [], widths[0]
        for s, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            blocks = []
            for b in range(depth):
                last_relu = plan.last_relu or (s, b) != (len(depths) - 1, depth - 1)
                blocks.append(Block(inputs, width, 2 if s and not b else 1, plan.project, last_relu))
                inputs = width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> Tensor:
        """N x channels x H x W -> N x D."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        for stage in self.stages:
            x = stage(x)
        return x.mean((2, 3))


_RESNET18 = ((2, 2, 2, 2), (64, 128, 256, 512))
_CIFAR = (16, 32, 64)
NETWORKS: dict[str, Plan] = {
    "resnet18": Plan(*_RESNET18, "ResNet-18, 7x7 stem, for 224 pixels", imagenet_stem=True, project=True),
    "resnet18-3x3": Plan(*_RESNET18, "ResNet-18, 3x3 stem, for 32 pixels", project=True),
    # iCaRL's network leaves out the last ReLU: its features may be negative.
    "resnet32": Plan((5, 5, 5), _CIFAR, "iCaRL's ResNet-32 for 32 pixels, no ReLU at the end", last_relu=False),
    "resnet20": Plan((3, 3, 3), _CIFAR, "ResNet-20 for 32 pixels"),
    "resnet8": Plan((1, 1, 1), _CIFAR, "ResNet-8 for 32 pixels, made for CPUs"),
    "resnet8-half": Plan(
        (1, 1, 1), (24, 48, 96), "wider ResNet-8 whose stem halves the image, half the time of resnet8", stem_stride=2
    ),
}


def create_network(
    name: str, channels: int, num_classes: int, generator: Generator, pretrained: bool = False
) -> Network:
    """A network of this name with fresh weights, for images of `channels` channels and `num_classes` classes.

    With `pretrained`, a backbone of timm has the weights that timm knows for it.
    """
    if name.startswith("timm:"):
        backbone, feature_size = _timm_backbone(name, channels, generator, pretrained)
    else:
        backbone, feature_size = _resnet(name, channels, generator)
    network = Network(name, backbone, feature_size, channels, num_classes)
    network.recreate_linear(num_classes, generator)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _resnet(name: str, channels: int, generator: Generator) -> tuple[nn.Module, int]:
    if name not in NETWORKS:
        raise ValueError(
            f"unknown network {name!r}; known: {', '.join(NETWORKS)}, and timm:<name> if timm is installed"
        )
    plan = NETWORKS[name]
    with torch.device("meta"):  # no weights are drawn here: the global random state is not touched
        backbone = ResNet(channels, plan)
    _fill_with_memory(backbone)
    _initialise(backbone, generator)
    return backbone, plan.widths[-1]


def empty_linear(feature_size: int, num_classes: int) -> nn.Linear:
    """A linear layer whose weights are still to be filled in; the global random state is not touched."""
    with torch.device("meta"):
        linear = nn.Linear(feature_size, num_classes)
    _fill_with_memory(linear)
    return linear


def _fill_with_memory(module: nn.Module) -> None:
    """What `Module.to_empty` does. That function imports torch's compiler first, half a second."""
    module._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype))


def _timm_backbone(name: str, channels: int, generator: Generator, pretrained: bool) -> tuple[nn.Module, int]:
    try:
        import timm
    except ImportError as error:
        raise ValueError(f"network {name!r} needs timm: pip install timm") from error
    # timm draws weights from the global state: give it a known one, and put the old one back.
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        try:
            backbone = timm.create_model(
                name.removeprefix("timm:"), pretrained=pretrained, in_chans=channels, num_classes=0
            )
        except (RuntimeError, OSError) as error:  # an unknown name; weights that cannot be fetched
            raise ValueError(f"network {name!r}: {error}") from error
    return backbone, backbone.num_features


def _initialise(backbone: nn.Module, generator: Generator) -> None:
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def extract_features(network: Network, images: Images, ranks: Ranks = ALONE) -> Tensor:
    """N x D features of N images, in evaluation mode, on the CPU.

    Ranks share out whole batches, the same ones that one process would have: not a bit depends on their number.
    """
    device, was_training = network.mean.device, network.training
    every = range(len(images))
    parts = ranks.parts(-(-len(images) // _EXTRACT_BATCH))
    rows = [every[part.start * _EXTRACT_BATCH : part.stop * _EXTRACT_BATCH] for part in parts]
    if ranks.count > 1:
        images = images[torch.arange(rows[ranks.rank].start, rows[ranks.rank].stop)]
    network.eval()
    with torch.inference_mode():
        chunks = [network.features(batch.to(device)).float().cpu() for batch in centre_batches(images, _EXTRACT_BATCH)]
    network.train(was_training)
    features = torch.cat(chunks) if chunks else torch.empty(0, network.feature_size)
    return ranks.gathered_rows(features, [len(of_rank) for of_rank in rows])


def describe_network(network: Network, height: int, width: int) -> dict[str, int]:
    """Feature size, number of parameters, and floating-point operations of one image's forward pass.

    Counted are convolutions and linear layers, a multiplication and an addition each, as is usual.
    """
    flops = 0

    def count(module: nn.Module, _: object, output: Tensor) -> None:
        nonlocal flops
        if isinstance(module, nn.Conv2d | nn.Linear):
            flops += 2 * output.numel() * module.weight[0].numel()

    hooks = [module.register_forward_hook(count) for module in network.modules()]
    image = torch.zeros(1, network.channels, height, width, dtype=torch.uint8, device=network.mean.device)
    training = network.training
    with torch.no_grad():
        network.eval()(image)
    network.train(training)
    for hook in hooks:
        hook.remove()
    parameters = sum(p.numel() for p in network.parameters())
    return {"feature_size": network.feature_size, "parameters": parameters, "flops": flops}
