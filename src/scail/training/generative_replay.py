"""GenerativeReplay: past classes are trained on exemplars, and on images that generators make up (He et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from scail.config import Recipe, Schedule, Schedules
from scail.datasets.dataset import Images
from scail.networks.image_generator import MOST_SIDE, NOISE, WIDTH, ImageShape
from scail.networks.network import Network, extract_features
from scail.training.adversarial import BETAS, PENALTY, train_generator
from scail.training.fine_tune import FineTune
from scail.training.generators import Generators
from scail.training.joint import Joint
from scail.training.loop import LOOP_VERSION, TrainingDiverged, fit
from scail.training.task import Task, Trained
from scail.training.trainer import Trainer

LEAST_SPREAD = 0.05
"""Images made up of a class spread so many times as far as its real ones, or the generator has collapsed."""
LOOKED_AT = 100
"""Images of each class that are made up to see how good they are."""


@dataclass(frozen=True)
class GenerativeReplay(Trainer):
    """State 0 as in `Joint`. After each state a generator learns its new classes (`complete`). Later states train on
    new images, exemplars, and as many made-up images as bring each past class up to a new one."""

    title = "generative replay"
    schedules = ("first", "generative_replay", "generator")
    most_side = MOST_SIDE
    first: Joint
    schedule: Schedule
    """The network, in later states."""
    generator: Schedule
    """The image generator of each state."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 as in `Joint`."""
        generator = schedules["generator"]
        if generator.decay not in ("steps", "cosine"):
            raise ValueError(
                f"schedule generator: decay is {generator.decay}, expected steps or cosine: the loss of a generator "
                "says nothing of how far it is"
            )
        return cls(Joint.of(recipe, schedules, total_classes), schedules["generative_replay"], generator)

    def train(self, task: Task) -> Network:
        """The network after this state."""
        shape = shape_of(task.images)
        if task.previous is None:
            return self.first.train(task)
        network = FineTune(self.first, self.schedule, keep_past_rows=True).widened(task, task.previous)
        fit(network, with_generated(task, shape), self.schedule)
        return network

    def complete(self, trained: Trained, task: Task) -> dict[str, Tensor]:
        """The generators of before, and one for the classes that are new."""
        before = Generators.carried_in(task.carried)
        if task.num_classes == task.past_classes:
            return before.to_carry() if before else {}
        shape, new = shape_of(task.images), task.labels >= task.past_classes
        assert isinstance(task.images, Tensor)
        images, columns = task.images[new], task.labels[new] - task.past_classes
        made = train_generator(images, columns, shape, self.generator, task)
        found = Generators.with_newest(before, made, torch.zeros(task.num_classes - task.past_classes))
        return replace(found, recognised_C=_recognised(found, before, images, columns, trained, task)).to_carry()

    def epochs(self, state: int, images: int) -> int:
        """Of the network; the generators' steps are their own."""
        return self.schedule.most_epochs(images) if state else self.first.epochs(state, images)

    def epoch_images(self, state: int, counts: Sequence[int], past: int) -> int:
        """With those that are made up."""
        return sum(counts) + sum(missing(counts, past))

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is shared with every trajectory that begins alike: generators come after it."""
        if state == 0:
            return self.first.settings(state)
        own = {"schedule": self.schedule.record(), "generator": self.generator.record()}
        sizes = [NOISE, WIDTH, PENALTY, *BETAS]
        return {"trainer": "generative_replay", "version": 1, "loop": LOOP_VERSION, "sizes": sizes, **own}

    @classmethod
    def check_carried(cls, carried: Mapping[str, Tensor], classes: int, features: int) -> None:
        """A generator for each class."""
        Generators.check(carried, classes)

    @classmethod
    def without_class(cls, carried: Mapping[str, Tensor], label: int) -> dict[str, Tensor]:
        """Its part of the generators goes."""
        found = Generators.carried_in(carried)
        return found.without(label).to_carry() if found else {}


def shape_of(images: Images) -> ImageShape:
    """What generated images are to be; an error where they would be too large."""
    _, channels, height, width = images.shape
    if not isinstance(images, Tensor) or max(height, width) > MOST_SIDE:
        read = "" if isinstance(images, Tensor) else ", read from disk one by one"
        raise ValueError(
            f"generative replay: images of {height} x {width} pixels{read}; expected images in memory of at most "
            f"{MOST_SIDE} x {MOST_SIDE}. Learn them at fewer pixels, or take another method"
        )
    return ImageShape(channels, height, width)


def missing(counts: Sequence[int], past: int) -> list[int]:
    """For each past class, how many images bring it up to a new one; without new classes, up to the largest one.

    >>> missing([3, 5, 10, 20], past=2)
    [12, 10]
    """
    new = counts[past:]
    enough = round(sum(new) / len(new)) if new else max(counts, default=0)
    return [max(0, enough - count) for count in counts[:past]]


def with_generated(task: Task, shape: ImageShape) -> Task:
    """The task with images that are made up of past classes; rank 0 makes them for all."""
    generators = Generators.carried_in(task.carried)
    if generators is None:
        return task
    if generators.shape[:3] != shape[:3]:
        raise ValueError(f"generative replay: images are {[*shape[:3]]}, and were {[*generators.shape[:3]]} before")
    counts = torch.bincount(task.labels, minlength=task.num_classes).tolist()
    made, labels = task.ranks.decided(
        generators.drawn, missing(counts, task.past_classes), task.seed, "training", task.state
    )
    assert isinstance(task.images, Tensor)
    return replace(task, images=torch.cat([task.images, made]), labels=torch.cat([task.labels, labels]))


def _recognised(
    found: Generators, before: Generators | None, images: Tensor, columns: Tensor, trained: Trained, task: Task
) -> Tensor:
    """Per class, the share of images made of it that the network takes for it; those of before stay.

    An error where images that are made of a class are all but the same, and its real ones are not.
    """
    _check_finite(found, task.state)
    counts = [LOOKED_AT if label >= task.past_classes else 0 for label in range(task.num_classes)]
    made, labels = found.drawn(counts, task.seed, "looked at")
    for column in range(task.num_classes - task.past_classes):
        label = task.past_classes + column
        check_spread(images[columns == column], made[labels == label], label, task.state)
    with torch.no_grad():
        taken_for = trained.network.linear(extract_features(trained.network, made)).argmax(1)
    right = torch.bincount(labels[taken_for == labels], minlength=task.num_classes)[task.past_classes :]
    shares = right.float() / LOOKED_AT
    return shares if before is None else torch.cat([before.recognised_C, shares])


def _check_finite(found: Generators, state: int) -> None:
    if not all(bool(value.isfinite().all()) for value in found.weights.values()):
        raise TrainingDiverged(
            f"state {state}: weights of the image generator are NaN, infinite or too large for 16 bits; try a lower "
            "learning rate (schedule generator: lr). The network of this state is kept"
        )


def check_spread(real: Tensor, made: Tensor, label: int, state: int) -> None:
    """An error where images made of a class are all but the same, and the real ones are not."""
    spread, of_made = (float(of.float().std(0, correction=0).mean()) for of in (real, made))
    if of_made < LEAST_SPREAD * spread:
        raise ValueError(
            f"state {state}: the image generator has collapsed. What it makes of class {label} (counted from 0 as they "
            f"came) spreads {of_made / spread:.1e} times as far as the class's real images, expected {LEAST_SPREAD:g} "
            "or more. Train it longer, or at a lower rate (schedule generator: epochs, passes, lr). The network of "
            "this state is kept"
        )
