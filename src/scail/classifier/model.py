"""A classifier that keeps learning, as a value: all that its folder holds, and the scores that it gives.

Shapes: N images, C classes, E exemplars, H held-out images.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from scail.classifier.inputs import Shape
from scail.config import Experiment, Select
from scail.config.recipes import DEFAULT_METHOD, WITHOUT_MEMORY
from scail.exemplars import Memory
from scail.heads import LinearHead
from scail.learner import Learned
from scail.methods import METHODS, head_of, split_name
from scail.networks.network import extract_features
from scail.training import TRAINERS, Trainer

DEFAULT_SELECT: Select = "herding"
MOST_HISTORY = 100
"""Calls that are written down; what came before is forgotten, so that the record stays short."""


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

    @property
    def trainer(self) -> type[Trainer]:
        """How it trains."""
        return TRAINERS[METHODS[self.method].trainer]

    def training(self) -> Trainer:
        """Its trainer with these settings; what classes will come is not known."""
        recipe = self.experiment.recipe
        return self.trainer.of(recipe, recipe.schedules, None)

    @property
    def held_out_places(self) -> int:
        """How many of the B images are held out."""
        return int(self.validation * self.memory)

    @property
    def exemplar_places(self) -> int:
        """How many of the B images are exemplars."""
        return self.memory - self.held_out_places


@dataclass(frozen=True)
class Kept:
    """Images that a classifier keeps: `memory.exemplars[c]` are rows of `images`, of class c, best first."""

    images: Tensor
    memory: Memory

    @classmethod
    def chosen(cls, images: Tensor, memory: Memory) -> Kept:
        """Of these images those in the memory, which is renumbered."""
        rows = torch.arange(len(memory)).split([len(rows) for rows in memory.exemplars])
        return cls(images[memory.indices], Memory(memory.budget, tuple(rows)))


@dataclass(frozen=True)
class Model:
    """A classifier after a state."""

    settings: Settings
    classes: tuple[str, ...]
    """In order of arrival: the name of label c is classes[c]."""
    learned: Learned
    """Its memory counts rows of `exemplars.images`."""
    exemplars: Kept
    held_out: Kept
    calls: int = 1
    """How often it learned."""
    history: tuple[dict[str, Any], ...] = ()
    accuracy: dict[str, Any] | None = None
    """Top-1 and top-5 on the images held out, after the last call."""
    difference: dict[str, Any] | None = field(default=None)
    """What the last call did to past classes, on images held out: per class images, correct before, correct after."""

    def head(self) -> LinearHead:
        """The head of its method."""
        return head_of(self.settings.method, self.settings.experiment.heads, self.learned)

    def scores(self, images: Tensor) -> Tensor:
        """N x C scores of N uint8 images."""
        return self.head().scores(extract_features(self.learned.network, images))

    def states(self) -> tuple[tuple[str, ...], ...]:
        """The classes that were new in each state; states of which no class is left are left out."""
        first = self.learned.evidence.first_state_C.tolist()
        return tuple(
            tuple(n for n, f in zip(self.classes, first, strict=True) if f == state) for state in sorted(set(first))
        )

    def use(self, name: str) -> Model:
        """The same model with another head from the same trajectory: nothing is trained."""
        check_head(name, self.settings)
        return replace(self, settings=replace(self.settings, method=named_method(name, self.settings.memory)[0]))


def named_method(name: str, memory: int) -> tuple[str, Select | None]:
    """The method that is meant, `auto` being what is best with this memory, and the selection if one is named."""
    method, named = split_name(name)
    return (DEFAULT_METHOD if memory else WITHOUT_MEMORY) if method == "auto" else method, named


def check_method(name: str, memory: int) -> tuple[str, Select | None]:
    """The method and its selection, if a classifier that keeps learning can use it with this memory."""
    if memory < 0:
        raise ValueError(f"memory is {memory} images, expected 0 or more")
    method, named = named_method(name, memory)
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known: auto, {', '.join(open_methods(memory))}")
    if TRAINERS[METHODS[method].trainer].at_once:
        raise ValueError(
            f"method {method} trains on all data of all classes at once and cannot keep learning; "
            f"with a memory of {memory} images: {', '.join(open_methods(memory))}"
        )
    if METHODS[method].without_memory and memory:
        raise ValueError(f"method {method} has no memory by definition: give memory 0, or another method")
    if METHODS[method].needs_exemplars and not memory:
        raise ValueError(f"method {method} needs exemplars, but memory is 0; give it a memory, or another method")
    return method, (named or METHODS[method].select or DEFAULT_SELECT) if memory else None


def open_methods(memory: int) -> list[str]:
    """The methods that can learn from an open stream with this memory."""
    return [
        name for name, method in METHODS.items()
        if not TRAINERS[method.trainer].at_once
        and not (method.without_memory if memory else method.needs_exemplars)
    ]  # fmt: skip


def heads_on(settings: Settings) -> list[str]:
    """The methods whose heads can be read from this classifier's trajectory."""
    trainer = METHODS[settings.method].trainer
    return [name for name in open_methods(settings.memory) if METHODS[name].trainer == trainer]


def check_head(name: str, settings: Settings) -> None:
    """An error, unless this method's head can be read from this classifier's trajectory."""
    method, named = named_method(name, settings.memory)
    able = heads_on(settings)
    if method not in able or named not in (None, settings.select):
        chosen = f"{settings.select} exemplars" if settings.select else "no memory"
        raise ValueError(
            f"method {name!r} cannot be read from what {settings.method} trained with {chosen}; "
            f"without training these can: {', '.join(able)}"
        )


def counts_of(model: Model) -> Mapping[str, int]:
    """Numbers that people ask for: classes, memory, exemplars, held-out images."""
    return {
        "classes": len(model.classes), "memory": model.settings.memory, "exemplars": len(model.exemplars.memory),
        "held_out": len(model.held_out.memory),
    }  # fmt: skip
