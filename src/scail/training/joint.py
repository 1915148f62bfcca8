"""Joint: one training from scratch on everything at hand. State 0 of every trajectory, and Full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Generator

from scail.config import Recipe, Schedule, Schedules
from scail.datasets.images.batches import channel_statistics
from scail.networks.network import Network, create_network
from scail.networks.pretrained import weights_id
from scail.runtime.seeds import generator_for
from scail.training.loop import LOOP_VERSION, fit
from scail.training.task import Task
from scail.training.trainer import Trainer


@dataclass(frozen=True)
class Joint(Trainer):
    """A fresh network, trained with cross-entropy on all images of the task."""

    title = "Full"
    schedules = ("first",)
    at_once = True
    own_layer = False
    network: str
    schedule: Schedule
    weights: str | None = None
    """The fingerprint of the weights that it begins with; None: fresh ones."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With the schedule of state 0."""
        weights = recipe.weights and weights_id(recipe.network, recipe.weights)
        return cls(recipe.network, schedules["first"], weights)

    def train(self, task: Task) -> Network:
        """The network after the training; its normalisation comes from these images too."""
        network = first_network(task, self.network, task.num_classes, generator_for(task.seed, "network"))
        fit(network, task, self.schedule)
        return network

    def epochs(self, state: int, images: int) -> int:
        """How many epochs this takes."""
        return self.schedule.most_epochs(images)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        schedule = self.schedule.record()
        found = {"trainer": "joint", "loop": LOOP_VERSION, "network": self.network, "schedule": schedule}
        return found | ({"weights": self.weights} if self.weights else {})


def first_network(task: Task, name: str, outputs: int, fresh: Generator) -> Network:
    """What state 0 begins with: the network that was given, else a fresh one with these images' normalisation."""
    if task.start is not None:
        network = task.start.clone()
        network.recreate_linear(outputs, fresh)
        return network
    network = create_network(name, task.images.shape[1], outputs, fresh)
    network.mean, network.std = channel_statistics(task.images)
    return network
