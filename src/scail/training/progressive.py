"""Progressive: progressive neural networks. A state adds a column, which sees what the frozen ones before it show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from scail.config import Recipe, Schedule, Schedules
from scail.networks.columns import with_column
from scail.networks.grown import parts_of
from scail.networks.network import Network, create_network, drawn_linear
from scail.runtime.seeds import generator_for
from scail.training.apart import joined, learn_past, new_classes_loss
from scail.training.joint import Joint
from scail.training.loop import LOOP_VERSION, fit
from scail.training.task import Task
from scail.training.trainer import Trainer


@dataclass(frozen=True)
class Progressive(Trainer):
    """State 0 as in `Joint`: the first column. Every state adds one, with adapters from all columns before it, and
    trains it and a layer of its own on the new classes alone."""

    title = "progressive networks"
    schedules = ("progressive",)
    taught = True
    least_classes = 2
    apart = True
    first: Joint
    schedule: Schedule
    """Every state."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With the schedule `progressive`, in state 0 too."""
        first = Joint.of(recipe, Schedules(schedules, first=schedules["progressive"]), total_classes)
        return cls(first, schedules["progressive"])

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            return self.first.train(task)
        network, past = task.previous.clone(), task.past_classes
        features = network.feature_size // len(parts_of(network.backbone))
        if task.num_classes > past:
            before = network.linear
            draw = generator_for(task.seed, "column", task.state)
            column = create_network(network.name, network.channels, 1, draw).backbone
            if self.first.weights:  # as well prepared as the first one was
                column.load_state_dict(parts_of(network.backbone)[0].state_dict())
            grown = with_column(network.backbone.cpu(), column, network.channels, draw)
            network.become(grown, network.feature_size + features)
            fresh = drawn_linear(features, task.num_classes - past, generator_for(task.seed, "linear", task.state))
            network.linear = OfNewest(fresh)
            fit(
                network,
                task.of((task.labels >= past).nonzero().flatten()),
                self.schedule,
                partial(new_classes_loss, past),
            )
            network.linear = joined(before, fresh)
        learn_past(network, task, self.schedule, features)
        return network

    def epochs(self, state: int, images: int) -> int:
        """The same in every state."""
        return self.schedule.most_epochs(images)

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """Images of new classes alone."""
        own = sum(counts[past:])
        return own * self.epochs(state, own)

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is shared with every trajectory that begins alike."""
        if state == 0:
            return self.first.settings(state)
        own = {"schedule": self.schedule.record()}
        return {"trainer": "progressive", "version": 1, "loop": LOOP_VERSION, **own}


class OfNewest(nn.Linear):
    """A layer that sees the last features only."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, device="meta")
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, features_ND: Tensor) -> Tensor:
        """N x (new classes)."""
        return torch.nn.functional.linear(features_ND[:, -self.in_features :], self.weight, self.bias)
