"""Wa: weight aligning. Distillation keeps past classes apart; new rows are then made as long as past ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import nn

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network
from scail.networks.pretrained import weights_id
from scail.runtime.seeds import generator_for
from scail.training.bic import bias_aware_loss
from scail.training.joint import first_network
from scail.training.loop import LOOP_VERSION, fit
from scail.training.losses import cross_entropy, teacher_of
from scail.training.task import Task
from scail.training.trainer import Trainer


@dataclass(frozen=True)
class Wa(Trainer):
    """Cross-entropy and distillation, weighed by the share of past classes, with no weight of the layer below zero.

    The aligned network is the result: the next state starts from it, and has it as its teacher.
    """

    title = "WA"
    schedules = ("wa",)
    taught = True
    network: str
    schedule: Schedule
    """Every state."""
    weights: str | None = None
    """The fingerprint of the weights that it begins with; None: fresh ones."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With the schedule `wa`."""
        weights = recipe.weights and weights_id(recipe.network, recipe.weights)
        return cls(recipe.network, schedules["wa"], weights)

    def train(self, task: Task) -> Network:
        """The network after this state, aligned."""
        past, new = task.past_classes, task.num_classes - task.past_classes
        if task.previous is None:
            network, loss = first_network(task, self.network, new, generator_for(task.seed, "network")), cross_entropy
        else:
            network = task.previous.clone()
            network.recreate_linear(task.num_classes, generator_for(task.seed, "linear", task.state), keep_past=True)
            teacher = teacher_of(task.previous).to(task.fabric.device)
            # Where no class is new the labels still count, as much as one class would.
            loss = partial(bias_aware_loss, teacher, past / (past + max(1, new)))
        with never_negative(network.linear):
            fit(network, task, self.schedule, loss)
        align(network.linear, past)
        return network

    def epochs(self, state: int, images: int) -> int:
        """The same in every state."""
        return self.schedule.most_epochs(images)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own = {"network": self.network, "schedule": self.schedule.record()}
        own |= {"weights": self.weights} if self.weights else {}
        return {"trainer": "wa", "version": 1, "loop": LOOP_VERSION, **own}


@contextmanager
def never_negative(layer: nn.Linear) -> Iterator[None]:
    """Meanwhile every step that leaves a weight of the layer below zero is followed by setting it to zero."""

    def clip(module: nn.Module, _: Any) -> None:
        with torch.no_grad():
            module.get_parameter("weight").clamp_(min=0)

    handle = layer.register_forward_pre_hook(clip)  # what a step leaves is first seen by the next pass
    try:
        yield
    finally:
        handle.remove()
    clip(layer, None)  # after the last step there is no pass


def align(layer: nn.Linear, past: int) -> None:
    """New rows (and biases, so that it is the new scores) times mean length of past rows / mean length of new rows."""
    with torch.no_grad():
        lengths_C = layer.weight.norm(dim=1)
        if 0 < past < len(lengths_C) and lengths_C[past:].mean() > 0:
            factor = lengths_C[:past].mean() / lengths_C[past:].mean()
            layer.weight[past:] *= factor
            layer.bias[past:] *= factor
