"""Balanced: fine tuning, then a second, balanced one. FT^BAL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training.fine_tune import FineTune
from scail.training.loop import fit
from scail.training.losses import BatchLoss, cross_entropy
from scail.training.task import Task
from scail.training.trainer import Trainer


@dataclass(frozen=True)
class Balanced(Trainer):
    """FT on everything, then a short training on as many images of each class, new ones included, as past ones have.

    The result is what the next state starts from.
    """

    title = "FT^BAL"
    schedules = ("first", "later", "balanced")
    fine_tune: FineTune
    schedule: Schedule
    """The balanced step."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """Fine tuning as it is, and its balanced step."""
        return cls(FineTune.of(recipe, schedules, total_classes), schedules["balanced"])

    def train(self, task: Task) -> Network:
        """The network after both steps."""
        if task.previous is None:
            return self.fine_tune.train(task)
        loss = self.loss(task, task.previous)
        network = self.fine_tune.widened(task, task.previous)
        fit(network, task, self.fine_tune.schedule, loss)
        fit(network, task.of(balanced_rows(task)), self.schedule, loss, stage="balanced fine tuning")
        return network

    def loss(self, task: Task, previous: Network) -> BatchLoss:
        """The loss of both steps."""
        return cross_entropy

    def epochs(self, state: int, images: int) -> int:
        """Both steps."""
        return self.fine_tune.epochs(state, images) + (self.schedule.most_epochs(images) if state else 0)

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """Fine tuning on all images, then the balanced step on few."""
        found = self.fine_tune.passes(state, counts, past, budget)
        if state == 0:
            return found
        return found + balanced_passes(self.schedule, counts, past, budget[0])

    def settings(self, state: int) -> dict[str, object]:
        """Fine tuning's settings, and those of the balanced step."""
        if state == 0:
            return self.fine_tune.settings(state)
        both = {"fine_tune": self.fine_tune.settings(state), "schedule": self.schedule.record()}
        return {"trainer": "balanced", "version": 1, **both}


def _each(budget: int, past: int) -> int:
    """How many images of a class take part in the balanced step."""
    return max(1, budget // past)


def balanced_passes(schedule: Schedule, counts: Sequence[int], past: int, budget: int) -> int:
    """How many images the balanced step goes through at most, of so many of each class."""
    few = sum(min(count, _each(budget, past)) for count in counts)
    return few * schedule.most_epochs(few)


def balanced_rows(task: Task) -> Tensor:
    """Rows of floor(B / N_(k-1)) images of every class (at least one): the best exemplars; of new classes, drawn."""
    each = _each(task.budget, task.past_classes)
    rows = []
    for label in range(task.num_classes):
        of_class = (task.labels == label).nonzero().flatten()
        if label >= task.past_classes:
            draw = generator_for(task.seed, "balanced", label)
            of_class = of_class[torch.randperm(len(of_class), generator=draw)]
        rows.append(of_class[:each])
    return torch.cat(rows)
