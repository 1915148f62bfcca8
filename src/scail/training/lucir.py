"""Lucir: a unified classifier by rebalancing. Angles instead of products, features held, rows kept apart.

Shapes: N images, C classes of which the first P are past, D features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Recipe, Schedule, Schedules
from scail.networks.cosine_linear import CosineLinear
from scail.networks.network import Inside, Network
from scail.networks.pretrained import weights_id
from scail.runtime.seeds import generator_for
from scail.training.imprint import imprinted
from scail.training.joint import first_network
from scail.training.loop import LOOP_VERSION, fit
from scail.training.losses import BatchLoss, teacher_inside, teacher_of
from scail.training.task import Task
from scail.training.trainer import Trainer

LESS_FORGET = 5.0
"""Weight of the less-forget term where as many classes are new as are past; a schedule may have another."""
MARGIN, RIVALS = 0.5, 2


@dataclass(frozen=True)
class Lucir(Trainer):
    """Cross-entropy on scaled cosines. Later: rows of new classes begin imprinted, those of past ones stay as they are,
    features stay close to the teacher's, and exemplars keep a margin to the rows of new classes."""

    title = "LUCIR"
    schedules = ("lucir",)
    taught = True
    network: str
    schedule: Schedule
    """Every state."""
    weights: str | None = None
    """The fingerprint of the weights that it begins with; None: fresh ones."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With the schedule `lucir`."""
        schedules["lucir"].weights((LESS_FORGET,))
        weights = recipe.weights and weights_id(recipe.network, recipe.weights)
        return cls(recipe.network, schedules["lucir"], weights)

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            network = cosine_network(task, self.network)
            fit(network, task, self.schedule)
            return network
        network = task.previous.clone()
        with imprinted_layer(network, task):
            fit(network, task, self.schedule, self._loss(task, task.previous))
        return network

    def _loss(self, task: Task, previous: Network) -> BatchLoss:
        (less_forget,) = self.schedule.weights((LESS_FORGET,))
        new = max(1, task.num_classes - task.past_classes)
        exemplars = int((task.labels < task.past_classes).sum())
        return partial(
            rebalanced_loss, teacher_of(previous).to(task.fabric.device), task.past_classes,
            less_forget * math.sqrt(task.past_classes / new), len(task.labels) / max(1, exemplars),
        )  # fmt: skip

    def epochs(self, state: int, images: int) -> int:
        """The same in every state."""
        return self.schedule.most_epochs(images)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own = {"network": self.network, "schedule": self.schedule.record()}
        own |= {"weights": self.weights} if self.weights else {}
        return {"trainer": "lucir", "version": 1, "loop": LOOP_VERSION, **own}


def cosine_network(task: Task, name: str, proxies: int = 1) -> Network:
    """What state 0 begins with: a network whose layer goes by angles."""
    fresh = generator_for(task.seed, "network")
    network = first_network(task, name, task.num_classes, fresh)
    network.linear = CosineLinear(network.feature_size, task.num_classes, proxies).drawn(fresh)
    return network


@contextmanager
def imprinted_layer(network: Network, task: Task) -> Iterator[None]:
    """Meanwhile its layer has imprinted rows of the new classes, and those of the past ones are held.

    Where no class is new none is held: there is nothing else that could learn the labels.
    """
    assert isinstance(network.linear, CosineLinear)
    device = task.fabric.device
    layer = imprinted(network.to(device), network.linear, task).to(device)
    network.linear = layer
    if task.past_classes < task.num_classes:
        layer.hold(task.past_classes)
    yield
    layer.release()


def rebalanced_loss(
    teacher: Network, past: int, less_forget: float, per_exemplar: float, model: nn.Module, images: Tensor,
    labels: Tensor,
) -> Tensor:  # fmt: skip
    """Cross-entropy, plus the weighted less-forget term, plus the margins of past classes' images.

    `per_exemplar`: how many images there are for each of past classes. The margins are a mean over those; so that the
    loss is a mean over all images of a batch, whatever ranks have which of them, each counts that much.
    """
    found: Inside = model(images, inside="features")
    before = teacher_inside(teacher, images, "features")
    loss = F.cross_entropy(found.scores_NC, labels)
    loss = loss + less_forget * less_forget_loss(found.features_ND, before.features_ND)
    margins_N = margin_ranking(found.scores_NC / found.scale, labels, past)
    return loss + per_exemplar * margins_N.mean()


def less_forget_loss(features_ND: Tensor, teacher_ND: Tensor) -> Tensor:
    """1 - cosine between an image's features and the teacher's, the mean over images."""
    return (1 - F.cosine_similarity(features_ND, teacher_ND, dim=1)).mean()


def margin_ranking(cosines_NC: Tensor, labels_N: Tensor, past: int, margin: float = MARGIN) -> Tensor:
    """For each image of a past class, the mean over the `RIVALS` most similar new classes of
    max(0, margin - own cosine + the rival's); 0 for images of new classes."""
    new = cosines_NC.shape[1] - past
    if new == 0:
        return torch.zeros_like(cosines_NC[:, 0])
    own_N = cosines_NC.gather(1, labels_N[:, None])
    rivals_NK = cosines_NC[:, past:].topk(min(RIVALS, new), dim=1).values
    return F.relu(margin - own_N + rivals_NK).mean(1) * (labels_N < past)
