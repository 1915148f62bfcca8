"""A network: a backbone by its name and the linear layer on top; and features from it.

Shapes: N images, C classes, D features.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn

from scail.datasets.dataset import Images
from scail.datasets.images.batches import centre_batches
from scail.networks.cosine_linear import CosineLinear, cosine_linear_from
from scail.networks.efficientnet_lite import (
    EFFICIENTNETS,
    LEAST_SIDE,
    MOST_SIDE,
    create_efficientnet_lite,
    lite_name,
)
from scail.networks.growing import grown_like
from scail.networks.grown import parts_of, with_one_more
from scail.networks.mlp import MLPS, create_mlp
from scail.networks.resnet import MOST_WIDE, NETWORKS, create_resnet, layout_of, unfilled
from scail.networks.two_memories import TwoMemories, two_memories_like
from scail.runtime.ranks import ALONE, Ranks
from scail.runtime.seeds import generator_for
from scail.storage.entry import not_finite

NETWORK_VERSION = 1  # raise it when a change makes other networks or features: states are then not reused
_LITE_VERSION = 2  # the same for EfficientNets
_EXTRACT_BATCH = 256


def network_version(name: str) -> int:
    """It changes when networks of this name come out otherwise than before: what was trained then is not reused."""
    return _LITE_VERSION if lite_name(name) else NETWORK_VERSION


class Inside(NamedTuple):
    """What one pass shows of a network beside its scores."""

    scores_NC: Tensor
    features_ND: Tensor
    scale: Tensor
    """Of a layer that goes by angles: what its similarities are multiplied by. Else 1."""
    maps: list[Tensor]
    """Where they were asked for: N x channels x H x W after each stage of the backbone."""
    auxiliary_NC: Tensor | None = None
    """With the maps, where there is an auxiliary layer: its scores."""


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
        self.linear: nn.Linear = empty_linear(feature_size, num_classes)
        self.auxiliary: nn.Linear | None = None
        """A second layer, on the means of the maps after the last stage but one: for training alone."""
        self.still = False
        """While its layer trains, the backbone stays in evaluation mode."""
        self.int8: bytes | None = None
        """An ONNX graph in whole numbers of 8 bits whose features stand for its own; see `networks.int8`."""

    def features(self, images: Tensor, maps: list[Tensor] | None = None) -> Tensor:
        """N x D features of N uint8 images; the map after each stage of the backbone goes into `maps`."""
        pixels = (images.float() - self.mean[:, None, None]) / self.std[:, None, None]
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.backbone(pixels) if maps is None else self.backbone(pixels, maps)
        return features

    def forward(self, images: Tensor, inside: Literal["", "features", "maps"] = "") -> Tensor | Inside:
        """N x C raw scores of N uint8 images; where it is asked for, with what is inside: features, or maps too."""
        maps = list[Tensor]()
        features = self.features(images, maps if inside == "maps" else None)
        scores: Tensor = self.linear(features)
        if not inside:
            return scores
        scale = self.linear.scale if isinstance(self.linear, CosineLinear) else torch.ones(())
        auxiliary = self.auxiliary(maps[-2].mean((2, 3))) if maps and self.auxiliary is not None else None
        return Inside(scores, features, scale, maps, auxiliary)

    def train(self, mode: bool = True) -> Network:
        """Where the backbone is still, it stays in evaluation mode."""
        super().train(mode)
        if self.still:
            self.backbone.eval()
        return self

    def recreate_linear(self, num_classes: int, generator: Generator, keep_past: bool = False) -> None:
        """A fresh linear layer for `num_classes`; with `keep_past` the rows of the past classes stay as they are."""
        past = self.linear
        fresh = drawn_linear(self.feature_size, num_classes, generator).to(self.mean.device)
        with torch.no_grad():
            if keep_past:
                fresh.weight[: past.out_features] = past.weight
                fresh.bias[: past.out_features] = past.bias
        self.linear = fresh

    def grow(self, like: int = -1) -> None:
        """One more extractor beside those that there are; it begins as a copy of the newest, or of the one with this
        number. The layer is still the one before: recreate it."""
        each = self.feature_size // len(parts_of(self.backbone))
        self.become(with_one_more(self.backbone, like), self.feature_size + each)

    def become(self, backbone: nn.Module, feature_size: int) -> None:
        """Another backbone, of so many features. The layer is still the one before: recreate it."""
        self.backbone, self.feature_size = backbone, feature_size

    def projected(self, count: int, generator: Generator) -> Network:
        """A copy with so many random features in place of its own: max(0, features @ random matrix)."""
        return _projected(self.clone(), torch.randn(self.feature_size, count, generator=generator))

    @property
    def kept(self) -> list[Tensor]:
        """What it has for later trainings alone: no prediction needs it."""
        inner = self.backbone.kept if isinstance(self.backbone, TwoMemories) else []
        return [*inner, *(self.auxiliary.parameters() if self.auxiliary is not None else ())]

    def clone(self) -> Network:
        """An independent copy."""
        return copy.deepcopy(self)


def known_network(name: str) -> bool:
    """Whether it is the name of a network. Of timm's, only names that fetch nothing from elsewhere.

    >>> known_network("resnet8"), known_network("efficientnet-lite0@224"), known_network("timm:hf-hub:some/model")
    (True, True, False)
    >>> known_network("resnet8+500"), known_network("resnet8x4-half")  # 500 random features; four times as wide
    (True, True)
    """
    if random := re.fullmatch(r"([^+]+)\+([1-9][0-9]{0,5})", name):
        return known_network(random[1])
    if layout_of(name) or name in MLPS:
        return True
    return lite_name(name) is not None or re.fullmatch(r"timm:[A-Za-z0-9_.]+", name) is not None


def network_names() -> str:
    """All networks, for messages."""
    scaled = f"{next(iter(EFFICIENTNETS))}@N (images scaled to N x N pixels, {LEAST_SIDE} to {MOST_SIDE})"
    wide = f"resnet8xN and resnet8xN-half (N times as wide, 2 to {MOST_WIDE}; also resnet20 and resnet32)"
    return f"{', '.join([*NETWORKS, *MLPS, *EFFICIENTNETS])}, {wide}, {scaled}, and timm:<name> if timm is installed"


def create_network(
    name: str, channels: int, num_classes: int, generator: Generator, pretrained: bool = False
) -> Network:
    """A network of this name with fresh weights, for images of `channels` channels and `num_classes` classes.

    With `pretrained`, a backbone of timm has the weights that timm knows for it.
    """
    base, plus, count = name.partition("+")
    if plus and known_network(name):
        inner = create_network(base, channels, 1, generator, pretrained)
        network = inner.projected(int(count), generator)
        network.recreate_linear(num_classes, generator)
        return network
    if name.startswith("timm:"):
        backbone, feature_size = _timm_backbone(name, channels, generator, pretrained)
    elif not known_network(name):
        raise ValueError(f"unknown network {name!r}; known: {network_names()}")
    elif lite_name(name):
        backbone, feature_size = create_efficientnet_lite(name, channels, generator)
    elif name in MLPS:
        backbone, feature_size = create_mlp(channels, generator)
    else:
        layout = layout_of(name)
        assert layout is not None
        backbone, feature_size = create_resnet(layout, channels, generator)
    network = Network(name, backbone, feature_size, channels, num_classes)
    network.recreate_linear(num_classes, generator)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


class RandomFeatures(nn.Module):
    """A backbone, and a random matrix behind it: max(0, features @ matrix)."""

    matrix: Tensor

    def __init__(self, backbone: nn.Module, matrix: Tensor) -> None:
        super().__init__()
        self.backbone = backbone
        self.register_buffer("matrix", matrix)

    def forward(self, pixels: Tensor) -> Tensor:
        """N x M random features."""
        return torch.relu(self.backbone(pixels) @ self.matrix)


def _projected(network: Network, matrix: Tensor) -> Network:
    """This network with the matrix behind its backbone; its name says so, as resnet8+500."""
    made = Network(
        f"{network.name}+{matrix.shape[1]}", RandomFeatures(network.backbone, matrix.to(network.mean.device)),
        matrix.shape[1], network.channels, 1,
    )  # fmt: skip
    made.mean, made.std = network.mean, network.std
    made.recreate_linear(1, generator_for(0, "not used"))
    return made.to(network.mean.device)


def empty_linear(feature_size: int, num_classes: int) -> nn.Linear:
    """A linear layer whose weights are still to be filled in; the global random state is not touched."""
    return unfilled(lambda: nn.Linear(feature_size, num_classes))


def drawn_linear(feature_size: int, num_classes: int, generator: Generator) -> nn.Linear:
    """A fresh linear layer, as torch draws it by default."""
    fresh, bound = empty_linear(feature_size, num_classes), 1 / math.sqrt(feature_size)
    with torch.no_grad():
        for values in (fresh.weight, fresh.bias):
            values.copy_(torch.rand(values.shape, generator=generator) * (2 * bound) - bound)
    return fresh


def _timm_backbone(name: str, channels: int, generator: Generator, pretrained: bool) -> tuple[nn.Module, int]:
    try:
        import timm
    except (ImportError, RuntimeError, OSError) as error:  # torchvision has errors of all these kinds
        if isinstance(error, ModuleNotFoundError) and error.name == "timm":
            raise ValueError(f"network {name!r} needs timm: pip install 'scail[timm]'") from error
        raise ValueError(
            f"network {name!r}: timm is installed and cannot be imported ({error}). It needs a torchvision made for "
            f"torch {torch.__version__}: see that `python -c 'import torchvision'` works, or take another network"
        ) from error
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


def blank_network(name: str, channels: int, num_classes: int = 1) -> Network:
    """A network of this name whose weights have no meaning: they are to be overwritten."""
    return create_network(name, channels, num_classes, generator_for(0, "overwritten"))


def classes_of(tensors: Mapping[str, Tensor]) -> int:
    """How many classes the layer is for, in the weights of a network."""
    per_class = tensors.get("linear.weight" if "linear.scale" in tensors else "linear.bias")
    return per_class.shape[0] if per_class is not None and per_class.ndim else 0


def network_from(name: str, channels: int, tensors: Mapping[str, Tensor]) -> Network:
    """The network of this name with these weights, ready to be used; a ValueError if they are those of another."""
    if spoiled := not_finite(tensors):
        raise ValueError(f"{spoiled} has numbers that are NaN or infinite: not the weights of a network that learned")
    network = blank_network(name, channels, max(1, classes_of(tensors)))
    try:
        network.become(*grown_like(network.backbone, network.feature_size, tensors))
        if (memories := two_memories_like(network.backbone, tensors)) is not None:
            network.become(memories, memories.sizes.long + memories.sizes.recent)
        network.linear = empty_linear(network.feature_size, network.linear.out_features)
        if "linear.scale" in tensors:
            network.linear = cosine_linear_from(tensors, network.feature_size)
        if (rows := tensors.get("auxiliary.weight")) is not None:
            network.auxiliary = empty_linear(rows.shape[-1] if rows.ndim else 0, classes_of(tensors))
        network.load_state_dict(dict(tensors))
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"not the weights of {name} ({str(error)[:200]})") from error
    return network.eval()
