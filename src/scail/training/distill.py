"""Distill: iCaRL's training. Also FT^distill (read off the network), iCaRL^duet (both) and, without a memory, LwF."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network
from scail.networks.pretrained import weights_id
from scail.runtime.seeds import generator_for
from scail.training.joint import first_network
from scail.training.loop import LOOP_VERSION, fit
from scail.training.losses import teacher_of, teacher_scores
from scail.training.task import Task
from scail.training.trainer import Trainer

UNKNOWN_FUTURE = 100  # with an unknown future the summed loss is divided by this, so that lr keeps its meaning
# So many outputs: the mean over fewer has larger gradients, and SGD a rate as many times smaller.
RATES_ARE_FOR = 100
TEMPERATURE = (1.0,)
"""Of what the previous network says; a schedule may have another."""


@dataclass(frozen=True)
class Distill(Trainer):
    """One sigmoid per class, binary cross-entropy; past outputs learn what the previous network says of every image."""

    title = "distillation"
    schedules = ("distill",)
    heeds_labels = False
    taught = True
    network: str
    schedule: Schedule
    total_classes: int | None = None
    """Outputs for all classes that will ever come, where that is known; None: for the classes seen."""
    weights: str | None = None
    """The fingerprint of the weights that it begins with; None: fresh ones."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With outputs for all classes that will come, where that is known."""
        weights = recipe.weights and weights_id(recipe.network, recipe.weights)
        schedule = schedules["distill"]
        if not schedule.weights(TEMPERATURE)[0] > 0:
            raise ValueError(f"distill: temperature {schedule.distillation[0]:g}, expected a number above 0, as 2")
        if total_classes and total_classes < RATES_ARE_FOR and schedule.optimizer == "sgd":
            schedule = replace(schedule, lr=schedule.lr * total_classes / RATES_ARE_FOR)
        return cls(recipe.network, schedule, total_classes, weights)

    def train(self, task: Task) -> Network:
        """The network after this state; its layer goes on, it is not re-created."""
        outputs = self.total_classes or task.num_classes
        fresh = generator_for(task.seed, "network" if task.previous is None else "linear", task.state)
        if task.previous is None:
            network, teacher = first_network(task, self.network, outputs, fresh), None
        else:
            network, teacher = task.previous.clone(), teacher_of(task.previous).to(task.fabric.device)
            if self.total_classes is None:
                network.recreate_linear(outputs, fresh, keep_past=True)
        (temperature,) = self.schedule.weights(TEMPERATURE)
        known = self.total_classes is not None
        loss = partial(sigmoid_loss, teacher, task.past_classes, known, temperature=temperature)
        fit(network, task, self.schedule, loss)
        return network

    def epochs(self, state: int, images: int) -> int:
        """The same in every state."""
        return self.schedule.most_epochs(images)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own = {"network": self.network, "schedule": self.schedule.record(), "total_classes": self.total_classes}
        own |= {"weights": self.weights} if self.weights else {}
        return {"trainer": "distill", "version": 1, "loop": LOOP_VERSION, **own}


def sigmoid_loss(
    teacher: Network | None, past: int, known_future: bool, model: nn.Module, images: Tensor, labels: Tensor,
    temperature: float = 1.0,
) -> Tensor:  # fmt: skip
    """Binary cross-entropy over all outputs against `sigmoid_targets`."""
    scores = model(images)
    before = None if teacher is None else teacher_scores(teacher, images)[:, :past] / temperature
    targets = sigmoid_targets(scores, labels, before)
    if known_future:
        return F.binary_cross_entropy_with_logits(scores, targets)
    return F.binary_cross_entropy_with_logits(scores, targets, reduction="sum") / (len(scores) * UNKNOWN_FUTURE)


def sigmoid_targets(scores_NC: Tensor, labels_N: Tensor, teacher_NP: Tensor | None) -> Tensor:
    """N x C: past outputs, the teacher's sigmoids, for every image (exemplars too); the others, the labels."""
    targets = torch.zeros_like(scores_NC).scatter_(1, labels_N[:, None], 1.0)
    if teacher_NP is not None:
        targets[:, : teacher_NP.shape[1]] = teacher_NP.sigmoid()
    return targets
