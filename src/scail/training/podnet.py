"""Podnet: pooled outputs distillation. Several rows for each class, and maps inside the network that stay alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self

from torch import Tensor, nn

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Inside, Network
from scail.networks.pretrained import weights_id
from scail.training.balanced import balanced_passes, balanced_rows
from scail.training.loop import LOOP_VERSION, fit
from scail.training.losses import teacher_inside, teacher_of
from scail.training.lucir import cosine_network, imprinted_layer, less_forget_loss
from scail.training.pooled import nca_loss, pooled_loss
from scail.training.task import Task
from scail.training.trainer import Trainer

PROXIES = 10
"""Rows of each class."""
FLAT, SPATIAL = 1.0, 3.0
"""Weights of the features' term and of the maps' term where all classes are new; a schedule may have others."""


@dataclass(frozen=True)
class Podnet(Trainer):
    """A classifier of ten rows a class; features and pooled maps stay close to the teacher's; then a balanced step in
    which the layer alone is trained."""

    title = "PODNet"
    schedules = ("podnet", "podnet_classifier")
    own_layer = False
    taught = True
    network: str
    schedule: Schedule
    """Every state."""
    classifier: Schedule
    """The balanced step."""
    weights: str | None = None
    """The fingerprint of the weights that it begins with; None: fresh ones."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With its two schedules."""
        schedules["podnet"].weights((FLAT, SPATIAL))
        weights = recipe.weights and weights_id(recipe.network, recipe.weights)
        return cls(recipe.network, schedules["podnet"], schedules["podnet_classifier"], weights)

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            network = cosine_network(task, self.network, PROXIES)
            check_maps(network, "PODNet", "podnet")
            fit(network, task, self.schedule, similarity_loss)
            return network
        network = task.previous.clone()
        flat, spatial = self.schedule.weights((FLAT, SPATIAL))
        more = math.sqrt(task.num_classes / max(1, task.num_classes - task.past_classes))
        teacher = teacher_of(task.previous).to(task.fabric.device)
        with imprinted_layer(network, task):
            fit(network, task, self.schedule, partial(held_loss, teacher, more * flat, more * spatial))
        with layer_alone(network):
            fit(network, task.of(balanced_rows(task)), self.classifier, similarity_loss, stage="classifier")
        return network

    def epochs(self, state: int, images: int) -> int:
        """Both steps."""
        return self.schedule.most_epochs(images) + (self.classifier.most_epochs(images) if state else 0)

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """All images, then the balanced step on few."""
        found = sum(counts) * self.schedule.most_epochs(sum(counts))
        return found + (balanced_passes(self.classifier, counts, past, budget[0]) if state else 0)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own: dict[str, object] = {"network": self.network, "schedule": self.schedule.record()}
        own |= {"classifier": self.classifier.record()} if state else {}
        own |= {"weights": self.weights} if self.weights else {}
        return {"trainer": "podnet", "version": 1, "loop": LOOP_VERSION, **own}


def check_maps(network: Network, label: str, method: str) -> None:
    """An error where a network does not show what is inside."""
    if not getattr(network.backbone, "shows_maps", False):
        raise ValueError(
            f"{label} compares maps inside the network, and {network.name} shows none; take one of scail's ResNets or "
            f"EfficientNets, such as resnet8 or efficientnet-lite0, or leave {method} out"
        )


@contextmanager
def layer_alone(network: Network) -> Iterator[None]:
    """Meanwhile the backbone's weights are not trained."""
    network.backbone.requires_grad_(False)
    yield
    network.backbone.requires_grad_(True)


def similarity_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The classification loss."""
    return nca_loss(model(images), labels)


def held_loss(
    teacher: Network, flat: float, spatial: float, model: nn.Module, images: Tensor, labels: Tensor
) -> Tensor:
    """Classification, plus the weighted terms on features and on maps."""
    found: Inside = model(images, inside="maps")
    before = teacher_inside(teacher, images, "maps")
    loss = nca_loss(found.scores_NC, labels) + flat * less_forget_loss(found.features_ND, before.features_ND)
    return loss + spatial * pooled_loss(found.maps, before.maps)
