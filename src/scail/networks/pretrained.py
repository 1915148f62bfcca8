"""A network to begin with: which one suits the data, and weights from a file or from timm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from scail.networks.network import Network, blank_network, create_network
from scail.networks.resnet import NETWORKS
from scail.runtime.seeds import generator_for

PRETRAINED = "pretrained"
"""In place of a file: the weights that timm has for this network."""
_IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))  # mean and deviation behind torchvision's weights
_LARGE = 64  # pixels: larger images get the network with the large stem
_MANY = 20_000  # images: as many are worth a deeper network on a CPU


def choose_backbone(pixels: int, images: int, accelerator: bool) -> tuple[str, str]:
    """The network for images of so many pixels a side, and why.

    >>> choose_backbone(32, 500, accelerator=False)
    ('resnet8', 'small images (32 pixels), 500 of them, on a CPU')
    """
    if pixels > _LARGE:
        return "resnet18", f"large images ({pixels} pixels)"
    if accelerator:
        return "resnet18-3x3", f"small images ({pixels} pixels), on an accelerator"
    many = images >= _MANY
    return "resnet20" if many else "resnet8", f"small images ({pixels} pixels), {images} of them, on a CPU"


def start_network(name: str, weights: str | Path, channels: int) -> Network:
    """The network of this name with weights to begin with; its linear layer has no meaning yet.

    `weights`: a safetensors file with scail's own names or with torchvision's for a ResNet-18; or "pretrained".
    """
    if str(weights) == PRETRAINED:
        return _from_timm(name, channels)
    found = _read(Path(weights))
    network = blank_network(name, channels)
    own = {key.removeprefix("backbone."): value for key, value in found.items() if key.startswith("backbone.")}
    given = own or {_own_name(key): value for key, value in found.items() if not key.startswith("fc.")}
    _fill(network, given, name, Path(weights))
    if "mean" in found and "std" in found and found["mean"].shape == found["std"].shape == (channels,):
        _normalise(network, found["mean"], found["std"])
    elif channels == 3:
        _normalise(network, *map(torch.tensor, _IMAGENET))
    return network


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(path.read_bytes())
    except OSError as error:
        raise ValueError(f"backbone weights {path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise ValueError(
            f"backbone weights {path}: not a safetensors file ({error}); other kinds can hold code and are not read"
        ) from error


def _own_name(key: str) -> str:
    """torchvision's layer1.0.conv1 is our stages.0.0.conv1."""
    return re.sub(r"^layer([1-4])\.", lambda match: f"stages.{int(match[1]) - 1}.", key)


def _fill(network: Network, given: Mapping[str, Tensor], name: str, path: Path) -> None:
    wanted = network.backbone.state_dict()
    counters = {key for key in wanted if key.endswith("num_batches_tracked")}  # of no use here, and often left out
    missing, strange = sorted(wanted.keys() - given.keys() - counters), sorted(given.keys() - wanted.keys())
    wrong = [key for key in given if key in wanted and given[key].shape != wanted[key].shape]
    for what, keys in (("has no", missing), ("has an unknown", strange), ("has another shape of", wrong)):
        if keys:
            raise ValueError(
                f"backbone weights {path}: {what} {keys[0]!r} (and {len(keys) - 1} more): expected the weights of "
                f"{name}, with scail's names or, for resnet18, torchvision's; choose the network with --backbone: "
                f"{', '.join(NETWORKS)}"
            )
    network.backbone.load_state_dict(dict(given), strict=False)


def _normalise(network: Network, mean: Tensor, std: Tensor) -> None:
    network.mean, network.std = mean.float().clone(), std.float().clone()


def _from_timm(name: str, channels: int) -> Network:
    if not name.startswith("timm:"):
        raise ValueError(f"backbone weights 'pretrained': expected a backbone timm:<name>, not {name!r}, or a file")
    network = create_network(name, channels, 1, generator_for(0, "overwritten"), pretrained=True)
    known = getattr(network.backbone, "pretrained_cfg", {})
    if channels == 3 and "mean" in known and "std" in known:
        _normalise(network, 255 * torch.tensor(known["mean"]), 255 * torch.tensor(known["std"]))
    return network
