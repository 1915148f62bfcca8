"""What is fixed when a classifier learns for the first time, and which methods it can use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scail.classifier.inputs import Shape
from scail.config import Experiment, Select
from scail.config.recipes import DEFAULT_METHOD, FROZEN_METHOD, WITHOUT_MEMORY
from scail.methods import METHODS, split_name
from scail.training import Frozen, Trainer, trainer_of

DEFAULT_SELECT: Select = "herding"
Keep = Literal["features", "moments"]
Change = Literal["learn", "relabel", "rename", "resize", "forget", "undo", "save"]
"""What can be done to a model that has learned."""


@dataclass(frozen=True)
class Settings:
    """What is fixed when a classifier learns for the first time; only the head can be changed later."""

    method: str
    select: Select | None
    """How exemplars are chosen; None without a memory."""
    memory: int
    """B: exemplars and held-out images together, never more."""
    validation: float
    """Share of every class's images, and of B, that is held out to measure with."""
    mirror: bool
    shape: Shape
    experiment: Experiment
    """Network, schedules and all other settings of training and heads."""
    keep: Keep = "features"
    """Frozen networks: what is kept of learned images, beside the exemplars. features: those of each. moments: sums."""
    int8: bool = False
    """Whether its network runs in whole numbers of 8 bits: a frozen one, on a CPU."""

    @property
    def trainer(self) -> type[Trainer]:
        """How it trains."""
        return METHODS[self.method].kind

    def training(self) -> Trainer:
        """Its trainer with these settings; what classes will come is not known."""
        recipe = self.experiment.recipe
        return trainer_of(self.trainer, recipe, recipe.schedules, None)

    @property
    def pretrained(self) -> bool:
        """Whether its network came with weights and never moves: nothing is ever trained."""
        return self.trainer.frozen and self.experiment.recipe.weights is not None

    @property
    def held_out_places(self) -> int:
        """How many of the B images are held out."""
        return int(self.validation * self.memory)

    @property
    def exemplar_places(self) -> int:
        """How many of the B images are exemplars."""
        return self.memory - self.held_out_places


def check_int8(settings: Settings, accelerator: str = "cpu") -> None:
    """An error if its network is to run in 8 bits and cannot."""
    if not settings.int8:
        return
    if not issubclass(settings.trainer, Frozen):
        raise ValueError(
            f"int8: method {settings.method} trains its network, and 8 bits are too few for that; leave int8 out, or "
            "name a method that trains nothing, such as slda"
        )
    if not settings.pretrained:
        raise ValueError(
            f"int8: network {settings.experiment.recipe.network} would be trained from scratch on these images; leave "
            "int8 out, or take pretrained weights (backbone_weights pretrained)"
        )
    if accelerator not in ("auto", "cpu"):
        raise ValueError(f"int8 is for the CPU, and the accelerator is {accelerator}; leave int8 out, or take the CPU")


def named_method(name: str, memory: int, trained: bool = False) -> tuple[str, Select | None]:
    """The method that is meant, and the selection if one is named. `auto` is the best frozen one, or, of those that
    are `trained`, the best with this memory."""
    method, named = split_name(name)
    if method == "auto":
        method = (DEFAULT_METHOD if memory else WITHOUT_MEMORY) if trained else FROZEN_METHOD
    return method, named


def check_method(name: str, memory: int, trained: bool = False) -> tuple[str, Select | None]:
    """The method and its selection, if a classifier that keeps learning can use it with this memory."""
    if memory < 0:
        raise ValueError(f"memory is {memory} images, expected 0 or more")
    method, named = named_method(name, memory, trained)
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known: auto, {', '.join(open_methods(memory))}")
    if METHODS[method].kind.at_once:
        raise ValueError(
            f"method {method} trains on all data of all classes at once and cannot keep learning; "
            f"with a memory of {memory} images: {', '.join(open_methods(memory))}"
        )
    if METHODS[method].without_memory and memory:
        raise ValueError(f"method {method} has no memory by definition: give memory 0, or another method")
    if METHODS[method].needs_exemplars and not memory:
        raise ValueError(f"method {method} needs exemplars, but memory is 0; give it a memory, or another method")
    return method, (named or METHODS[method].known_select or DEFAULT_SELECT) if memory else None


def open_methods(memory: int) -> list[str]:
    """The methods that can learn from an open stream with this memory."""
    return [
        name for name, method in METHODS.items()
        if not method.kind.at_once
        and not (method.without_memory if memory else method.needs_exemplars)
    ]  # fmt: skip


def heads_on(settings: Settings) -> list[str]:
    """The methods whose heads can be read from this classifier's trajectory."""
    trainer = METHODS[settings.method].trainer
    return [name for name in open_methods(settings.memory) if METHODS[name].trainer == trainer]


def check_head(name: str, settings: Settings) -> None:
    """An error, unless this method's head can be read from this classifier's trajectory."""
    method, named = named_method(name, settings.memory, not settings.trainer.frozen)
    able = heads_on(settings)
    if method not in able or named not in (None, settings.select):
        chosen = f"{settings.select} exemplars" if settings.select else "no memory"
        raise ValueError(
            f"method {name!r} would need another training than {settings.method} had with {chosen}; "
            f"without training these can be used: {', '.join(able)}"
        )
