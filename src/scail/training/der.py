"""Der: a dynamically expandable representation. Every state adds an extractor; those before it are frozen.

Shapes: N images, C classes of which the first P are past, D features of an extractor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Recipe, Schedule, Schedules
from scail.networks.grown import Grown
from scail.networks.network import Network, drawn_linear
from scail.runtime.seeds import generator_for
from scail.training.balanced import balanced_passes, balanced_rows
from scail.training.joint import Joint
from scail.training.loop import LOOP_VERSION, fit
from scail.training.still import held
from scail.training.task import Task
from scail.training.trainer import Trainer

AUXILIARY = 1.0
"""Weight of the auxiliary classifier's loss."""
TEMPERATURE = 5.0
"""Of the softmax in the last step; a schedule may have another, as its `distillation`."""


@dataclass(frozen=True)
class Der(Trainer):
    """State 0 as in `Joint`. Later a copy of the newest extractor is trained beside the frozen ones, with an auxiliary
    classifier of its own; then a new layer on all features, with as many images of each class."""

    title = "DER"
    schedules = ("der", "der_classifier")
    taught = True
    first: Joint
    schedule: Schedule
    """Every state."""
    classifier: Schedule
    """The last step: the layer alone."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With its two schedules; state 0 has the first of them."""
        schedules["der_classifier"].weights((TEMPERATURE,))
        first = Joint.of(recipe, Schedules(schedules, first=schedules["der"]), total_classes)
        return cls(first, schedules["der"], schedules["der_classifier"])

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            return self.first.train(task)
        network = task.previous.clone()
        if task.past_classes == task.num_classes:  # nothing new to expand for: what there is learns the labels
            fit(network, task, self.schedule)
            return network
        self.expand(network, task)
        network.recreate_linear(task.num_classes, generator_for(task.seed, "classifier", task.state))
        (temperature,) = self.classifier.weights((TEMPERATURE,))
        with held(network):
            loss = partial(softened_cross_entropy, temperature)
            fit(network, task.of(balanced_rows(task)), self.classifier, loss, stage="classifier")
        return network

    def expand(self, network: Network, task: Task) -> None:
        """The first step: one more extractor, trained with both classifiers."""
        network.grow()
        network.recreate_linear(task.num_classes, generator_for(task.seed, "linear", task.state))
        with auxiliary_classifier(network, task):
            fit(network, task, self.schedule, partial(expanded_loss, task.past_classes, task.num_classes))

    def epochs(self, state: int, images: int) -> int:
        """Both steps."""
        return self.schedule.most_epochs(images) + (self.classifier.most_epochs(images) if state else 0)

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """All images, then the last step on few."""
        found = sum(counts) * self.schedule.most_epochs(sum(counts))
        return found + (balanced_passes(self.classifier, counts, past, budget[0]) if state else 0)

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is shared with every trajectory that begins alike."""
        if state == 0:
            return self.first.settings(state)
        own = {"schedule": self.schedule.record(), "classifier": self.classifier.record()}
        return {"trainer": "der", "version": 1, "loop": LOOP_VERSION, **own}


class WithAuxiliary(nn.Linear):
    """The scores of a layer, and behind them those of an auxiliary one, which sees the newest features only."""

    def __init__(self, layer: nn.Linear, auxiliary: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, device="meta")
        self.weight, self.bias, self.auxiliary = layer.weight, layer.bias, auxiliary

    def forward(self, features_ND: Tensor) -> Tensor:
        """N x (C + auxiliary outputs)."""
        newest_ND = features_ND[:, -self.auxiliary.in_features :]
        return torch.cat([super().forward(features_ND), self.auxiliary(newest_ND)], 1)


@contextmanager
def auxiliary_classifier(network: Network, task: Task) -> Iterator[None]:
    """Meanwhile its layer has an auxiliary one beside it: one output for all past classes, and one for each new one."""
    layer, new = network.linear, task.num_classes - task.past_classes
    assert isinstance(network.backbone, Grown)
    each = network.feature_size // len(network.backbone.parts)
    network.linear = WithAuxiliary(
        layer, drawn_linear(each, 1 + new, generator_for(task.seed, "auxiliary", task.state))
    )
    yield
    network.linear = layer


def expanded_loss(past: int, classes: int, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of both classifiers. To the auxiliary one all past classes are one class, its first."""
    scores: Tensor = model(images)
    auxiliary = F.cross_entropy(scores[:, classes:], (labels - past + 1).clamp(min=0))
    return F.cross_entropy(scores[:, :classes], labels) + AUXILIARY * auxiliary


def softened_cross_entropy(temperature: float, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of scores that are divided by the temperature."""
    return F.cross_entropy(model(images) / temperature, labels)
