"""What is decided when a classifier sees its first images: shape, network, schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from scail.classifier.inputs import Shape
from scail.classifier.settings import Settings, check_method
from scail.config import RECIPES, Experiment
from scail.config.recipes import learning
from scail.networks.pretrained import choose_backbone

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_SMALL = 64  # pixels: up to here the recipes for small images are meant


@dataclass(frozen=True)
class Wishes:
    """What a user asked for; see `IncrementalClassifier`."""

    memory: int
    method: str
    backbone: str
    started: bool
    """Whether there are weights to begin with."""
    recipe: str | Experiment
    validation: float
    mirror: bool
    epochs: int | tuple[int, int] | None
    seed: int


def first_settings(wishes: Wishes, images: Tensor, fabric: Fabric, say: Callable[[str], None]) -> Settings:
    """The settings of a classifier whose first images these are."""
    method, select = check_method(wishes.method, wishes.memory)
    if not 0 <= wishes.validation < 1:
        raise ValueError(f"validation is {wishes.validation}, expected a share from 0 to below 1")
    if wishes.validation and int(wishes.validation * wishes.memory) == 0:
        raise ValueError(
            f"validation is {wishes.validation} and memory {wishes.memory}: held-out images are counted in the memory, "
            "and there is no place for one; give a larger memory, or no validation"
        )
    if not 0 <= wishes.seed < 2**32:
        raise ValueError(f"seed is {wishes.seed}, expected 0 to {2**32 - 1}")
    shape = Shape(*images.shape[1:])
    pixels = min(shape.height, shape.width)
    experiment = _experiment(wishes, pixels, len(images), fabric.device.type != "cpu", say)
    experiment = experiment.but(seed=wishes.seed, image_size=None).with_epochs(wishes.epochs)
    return Settings(method, select, wishes.memory, float(wishes.validation), wishes.mirror, shape, experiment)


def _experiment(wishes: Wishes, pixels: int, images: int, accelerator: bool, say: Callable[[str], None]) -> Experiment:
    """The recipe; its network, unless another is asked for; without either, one that suits the data."""
    if isinstance(wishes.recipe, Experiment):
        found = wishes.recipe
    elif wishes.recipe == "auto":
        name, why = choose_backbone(pixels, images, accelerator)
        if wishes.backbone == "auto":
            say(f"network: {name}, for {why}")
        return learning(images, pixels, name if wishes.backbone == "auto" else wishes.backbone, wishes.started)
    elif wishes.recipe in RECIPES:
        found = RECIPES[wishes.recipe]("glyphs" if pixels <= _SMALL else "photos")
    else:
        raise ValueError(f"unknown recipe {wishes.recipe!r}; known: auto, {', '.join(RECIPES)}, or an Experiment")
    return found if wishes.backbone == "auto" else found.but(network=wishes.backbone)
