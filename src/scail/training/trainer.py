"""The first seam: how the network of a state is trained. A trainer is one file that declares all there is to know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor

from scail.config import Recipe, Schedules
from scail.datasets.dataset import Images
from scail.networks.network import Network, extract_features
from scail.runtime.ranks import ALONE, Ranks
from scail.training.task import Task, Trained


class Trainer(Protocol):
    """What a trainer declares, and what it does. Most need only the first two declarations and four methods."""

    title: ClassVar[str]
    """As a reader knows it."""
    schedules: ClassVar[tuple[str, ...]]
    """The schedules of a recipe that it uses: no other changes its numbers."""
    at_once: ClassVar[bool] = False
    """Trains on all data of all classes in one state: a reference, nothing that can keep learning."""
    least_classes: ClassVar[int] = 1
    """So many classes must be at hand in every state that has new ones."""
    apart: ClassVar[bool] = False
    """New classes learn from their own images alone: images of known ones are not at hand for them."""
    own_layer: ClassVar[bool] = True
    """Whether the network's linear layer is what it classifies with: its weights are then worth a look."""
    heeds_labels: ClassVar[bool] = True
    """Whether more images of a known class teach it their label."""
    frozen: ClassVar[bool] = False
    """The network never moves after state 0, and has no layer of its own: features stay true, and are taken once."""
    from_memory: ClassVar[bool] = False
    """Trains on random exemplars and on nothing else: the memory decides state 0, too."""
    taught: ClassVar[bool] = False
    """The network of the state before looks at every image too, in all states but the first."""
    most_side: ClassVar[int | None] = None
    """Images have so many pixels a side at most, and are in memory; None: any do."""
    holds_out: ClassVar[bool] = False
    """Holds exemplars out of the training, in state 0 too, and so needs two of a class."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """This trainer with a recipe's settings and `schedules`; `total_classes`: all that will come, if known."""
        ...

    def train(self, task: Task) -> Network:
        """The network after this state."""
        ...

    def extract(self, network: Network, images: Images, ranks: Ranks = ALONE) -> Tensor:
        """N x D features of N images, on the CPU."""
        return extract_features(network, images, ranks)

    def set_aside(self, task: Task) -> Tensor:
        """Rows of the task that the training never sees, of each class the first ones first: none, for most.

        The memory keeps them at places of their own (`aside_places`), so that no later state trains on them either.
        """
        return torch.empty(0, dtype=torch.int64)

    def epochs(self, state: int, images: int) -> int:
        """How many epochs a state with so many images takes at most; 0: nothing is trained."""
        ...

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """How many images this state's training goes through at most, each epoch counted.

        `counts`: images at hand of each class, exemplars for the first `past` ones. `budget`: B before and after the
        state. Where nothing is trained, each image is seen once, for its features.
        """
        each = self.epoch_images(state, counts, past)
        return each * max(1, self.epochs(state, each))

    def epoch_images(self, state: int, counts: Sequence[int], past: int) -> int:
        """How many images an epoch of this state has; `counts` as for `passes`."""
        return sum(counts)

    def settings(self, state: int) -> dict[str, object]:
        """Everything that decides the result of this state, and nothing else: it goes into the state's key."""
        ...

    def complete(self, trained: Trained, task: Task) -> dict[str, Tensor]:
        """What else the trainer leaves, for its own head and for its next state: nothing, for most.

        It is worked out from the network and the features of the task's images, and kept under a key of its own: state
        0 stays shared with every trainer that begins alike.
        """
        return {}

    @property
    def completes_by_memory(self) -> bool:
        """Whether what `complete` leaves goes by the size of the memory in state 0, too: later states always do."""
        return False

    @classmethod
    def check_carried(cls, carried: Mapping[str, Tensor], classes: int, features: int) -> None:
        """A ValueError if what `complete` left does not fit so many classes and features."""
        return

    @classmethod
    def without_class(cls, carried: Mapping[str, Tensor], label: int) -> dict[str, Tensor]:
        """What `complete` left, once the class of this label is forgotten."""
        return dict(carried)


def trainer_of(kind: type[Trainer], recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Trainer:
    """A trainer of this kind; an error if the recipe lacks a schedule that it needs."""
    if missing := [name for name in kind.schedules if name not in schedules]:
        known = ", ".join(schedules)
        raise ValueError(
            f"recipe {recipe.name} has no schedule {missing[0]!r}, which {kind.title} needs; it has {known}. Add one"
        )
    return kind.of(recipe, schedules, total_classes)


def check_settings(trainer: Trainer) -> None:
    """A ValueError where the settings of a trainer cannot be part of a key."""
    for state in (0, 1):
        settings = trainer.settings(state)
        try:
            json.dumps(settings)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"trainer {trainer.title}: settings({state}) cannot be written as JSON: {error}; expected a record of "
                "numbers, texts, lists and records, as schedule.record()"
            ) from None
        if not isinstance(settings, dict):
            raise ValueError(f"trainer {trainer.title}: settings({state}) is {settings!r:.60}; expected a record")


def check_shapes(carried: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    """A ValueError if a carried value is missing, or has another shape than expected."""
    for name, shape in expected.items():
        if name not in carried:
            raise ValueError(f"has no {name}")
        if tuple(carried[name].shape) != shape:
            raise ValueError(f"{name} is {tuple(carried[name].shape)}, expected {shape}")
