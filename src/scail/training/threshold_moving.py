"""ThresholdMoving: distillation at a higher temperature, and how much of each class the training saw.

Shapes: N images, C classes of which the first P are past.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network, extract_features
from scail.networks.pretrained import weights_id
from scail.runtime.seeds import generator_for
from scail.training.joint import first_network
from scail.training.loop import LOOP_VERSION, fit
from scail.training.losses import cross_entropy, distillation_loss, teacher_of, teacher_scores
from scail.training.task import Task, Trained
from scail.training.trainer import Trainer, check_shapes

WEIGHT, TEMPERATURE = 1.0, 2.0
"""Of the distillation term; a schedule may have others."""


@dataclass(frozen=True)
class ThresholdMoving(Trainer):
    """Cross-entropy, and distillation at a temperature. `complete`: the mass that each class had among all targets."""

    title = "threshold moving"
    schedules = ("threshold_moving",)
    taught = True
    network: str
    schedule: Schedule
    """Every state."""
    weights: str | None = None
    """The fingerprint of the weights that it begins with; None: fresh ones."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With the schedule `threshold_moving`, whose distillation is a weight and a temperature."""
        _, temperature = schedules["threshold_moving"].weights((WEIGHT, TEMPERATURE))
        if not temperature > 0:
            raise ValueError(f"threshold_moving: temperature {temperature:g}, expected a number above 0, as 1+2")
        weights = recipe.weights and weights_id(recipe.network, recipe.weights)
        return cls(recipe.network, schedules["threshold_moving"], weights)

    @property
    def _distillation(self) -> tuple[float, float]:
        """Weight and temperature."""
        weight, temperature = self.schedule.weights((WEIGHT, TEMPERATURE))
        return weight, temperature

    def train(self, task: Task) -> Network:
        """The network after this state; past classes keep their rows."""
        if task.previous is None:
            network = first_network(task, self.network, task.num_classes, generator_for(task.seed, "network"))
            fit(network, task, self.schedule, cross_entropy)
            return network
        network = task.previous.clone()
        network.recreate_linear(task.num_classes, generator_for(task.seed, "linear", task.state), keep_past=True)
        teacher = teacher_of(task.previous).to(task.fabric.device)
        fit(network, task, self.schedule, partial(softened_loss, teacher, *self._distillation))
        return network

    def complete(self, trained: Trained, task: Task) -> dict[str, Tensor]:
        """Each class's mass among the targets: labels, and what the teacher says, as much as that counts in the loss.

        No class has less than one image would give it.
        """
        mass_C = torch.bincount(task.labels, minlength=task.num_classes).float()
        if task.previous is not None:
            weight, temperature = self._distillation
            layer = task.previous.linear
            with torch.no_grad():
                scores_NP = layer(extract_features(task.previous, task.images).to(layer.weight.device)).cpu()
            softened_NP = F.softmax(scores_NP / temperature, dim=1)
            mass_C[: softened_NP.shape[1]] += weight * temperature**2 * softened_NP.sum(0)
        return {"mass_C": mass_C.clamp(min=1)}

    def epochs(self, state: int, images: int) -> int:
        """The same in every state."""
        return self.schedule.most_epochs(images)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own = {"network": self.network, "schedule": self.schedule.record()}
        own |= {"weights": self.weights} if self.weights else {}
        return {"trainer": "threshold_moving", "version": 1, "loop": LOOP_VERSION, **own}

    @classmethod
    def check_carried(cls, carried: Mapping[str, Tensor], classes: int, features: int) -> None:
        """A mass of 1 or more for each class."""
        check_shapes(carried, {"mass_C": (classes,)})
        if not bool((carried["mass_C"] >= 1).all()):
            raise ValueError("mass_C: expected numbers of 1 or more")

    @classmethod
    def without_class(cls, carried: Mapping[str, Tensor], label: int) -> dict[str, Tensor]:
        """The others keep theirs."""
        return {"mass_C": carried["mass_C"][torch.arange(len(carried["mass_C"])) != label]}


def softened_loss(
    teacher: Network, weight: float, temperature: float, model: nn.Module, images: Tensor, labels: Tensor
) -> Tensor:
    """Classification + weight * temperature^2 * distillation over the teacher's classes."""
    scores_NC, before_NP = model(images), teacher_scores(teacher, images)
    distillation = distillation_loss(scores_NC[:, : before_NP.shape[1]], before_NP, temperature)
    return F.cross_entropy(scores_NC, labels) + weight * temperature**2 * distillation
