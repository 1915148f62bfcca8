"""M2kd: multi-model and multi-level distillation. Every earlier model teaches the classes that were new in it.

Shapes: N images, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Inside, Network, drawn_linear
from scail.networks.pretrained import weights_id
from scail.runtime.seeds import generator_for
from scail.training.earlier_models import MOST, EarlierModels, Teacher, held, keep_largest, masked
from scail.training.joint import first_network
from scail.training.loop import LOOP_VERSION, fit
from scail.training.losses import distillation_loss, teacher_inside
from scail.training.podnet import check_maps
from scail.training.task import Task, Trained
from scail.training.trainer import Trainer, check_shapes

DISTILLATION, AUXILIARY = 1.0, 1.0
"""Weights of each model's distillation, and of the auxiliary classifier; a schedule may have others."""
KEPT = 0.25
"""The share of the free weights that becomes a model's own."""


@dataclass(frozen=True)
class M2kd(Trainer):
    """Cross-entropy, and distillation from every earlier model on its own classes; the same for an auxiliary
    classifier inside. Then most free weights are pruned, and the others trained again."""

    title = "M2KD"
    schedules = ("m2kd", "m2kd_pruned")
    taught = True
    network: str
    schedule: Schedule
    """Every state."""
    pruned: Schedule
    """The second step of every state: without the weights that were pruned."""
    weights: str | None = None
    """The fingerprint of the weights that it begins with; None: fresh ones."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With its two schedules; both have the weights of the first one."""
        schedules["m2kd"].weights((DISTILLATION, AUXILIARY))
        weights = recipe.weights and weights_id(recipe.network, recipe.weights)
        return cls(recipe.network, schedules["m2kd"], schedules["m2kd_pruned"], weights)

    def train(self, task: Task) -> Network:
        """The network after this state, pruned."""
        before = EarlierModels.carried_in(task.carried)
        network = self._begin(task) if before is None else _widened(task)
        again = 0 if before is None or task.past_classes < task.num_classes else before.newest
        backbone, device = network.backbone, task.fabric.device
        free = [torch.ones_like(w, dtype=torch.bool) for w in masked(backbone)]
        teachers: list[Teacher] = []
        if before is not None:
            free = [owner == 0 for owner in before.owners(backbone, again)]
            _check_room(before, free, again)
            assert task.previous is not None
            teachers = before.teachers(task.previous, device)
        weight, auxiliary = self.schedule.weights((DISTILLATION, AUXILIARY))
        loss = partial(multi_model_loss, teachers, weight, auxiliary)
        with held(backbone, [~of for of in free], device):
            fit(network, task, self.schedule, loss)
        mine = keep_largest(backbone, free, KEPT)
        with held(backbone, [~of for of in mine], device):
            fit(network, task, self.pruned, loss, stage="pruned")
        return network

    def _begin(self, task: Task) -> Network:
        """State 0: a network with an auxiliary layer."""
        network = first_network(task, self.network, task.num_classes, generator_for(task.seed, "network"))
        check_maps(network, self.title, "m2kd")
        maps, image = list[Tensor](), torch.zeros(1, *task.images.shape[1:], dtype=torch.uint8)
        with torch.no_grad():
            network.eval().features(image.to(network.mean.device), maps)
        fresh = generator_for(task.seed, "auxiliary", task.state)
        network.auxiliary = drawn_linear(maps[-2].shape[1], task.num_classes, fresh)
        return network

    def complete(self, trained: Trained, task: Task) -> dict[str, Tensor]:
        """What is kept of all models, this state's among them."""
        before = EarlierModels.carried_in(task.carried)
        return EarlierModels.with_newest(before, trained.network, task.past_classes).to_carry()

    def epochs(self, state: int, images: int) -> int:
        """Both steps."""
        return self.schedule.most_epochs(images) + self.pruned.most_epochs(images)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own: dict[str, object] = {"network": self.network, "schedule": self.schedule.record(), "kept": KEPT}
        own |= {"pruned": self.pruned.record()} | ({"weights": self.weights} if self.weights else {})
        return {"trainer": "m2kd", "version": 1, "loop": LOOP_VERSION, **own}

    @classmethod
    def check_carried(cls, carried: Mapping[str, Tensor], classes: int, features: int) -> None:
        """Rows for each class, numbers for each model, and a mask."""
        rows = {"model_C": (classes,), "bias_C": (classes,), "auxiliary_bias_C": (classes,)}
        check_shapes(carried, rows | {"weight_CD": (classes, features)})
        inner = carried["auxiliary_weight_CA"].shape[-1] if "auxiliary_weight_CA" in carried else 0
        check_shapes(carried, {"auxiliary_weight_CA": (classes, inner)})
        for name, dimensions, kind in (("owner_W", 1, torch.uint8), ("rest_MK", 2, torch.float32)):
            if name not in carried or carried[name].ndim != dimensions or carried[name].dtype != kind:
                raise ValueError(f"{name}: expected a tensor of {dimensions} dimensions of {kind}")
        numbers = torch.cat([carried["model_C"], carried["owner_W"].long(), torch.ones(1, dtype=torch.int64)])
        if int(numbers.max()) > len(carried["rest_MK"]) or int(carried["model_C"].min()) < 1:
            raise ValueError(f"models numbered to {int(numbers.max())}, and there are {len(carried['rest_MK'])}")

    @classmethod
    def without_class(cls, carried: Mapping[str, Tensor], label: int) -> dict[str, Tensor]:
        """Its rows go; the models stay."""
        left = torch.arange(len(carried["model_C"])) != label
        whole = ("owner_W", "rest_MK")
        return {name: value if name in whole else value[left] for name, value in carried.items()}


def _widened(task: Task) -> Network:
    """The network of before, both of whose layers have rows for new classes."""
    assert task.previous is not None
    network = task.previous.clone()
    assert network.auxiliary is not None
    rows = {}
    for name, layer in (("linear", network.linear), ("auxiliary", network.auxiliary)):
        rows[name] = drawn_linear(layer.in_features, task.num_classes, generator_for(task.seed, name, task.state))
        with torch.no_grad():
            rows[name].weight[: layer.out_features] = layer.weight
            rows[name].bias[: layer.out_features] = layer.bias
    network.linear, network.auxiliary = rows["linear"], rows["auxiliary"]
    return network


def _check_room(before: EarlierModels, free: Sequence[Tensor], again: int) -> None:
    """An error where a model more has no room."""
    if not any(bool(of.any()) for of in free):
        raise ValueError(
            f"M2KD: no weight of the network is free any more after {before.newest} models; take a wider network, or "
            "larger states. What was learned before stays as it is"
        )
    if before.newest >= MOST and not again:
        raise ValueError(
            f"M2KD: {before.newest} models are kept, and there can be no more; take larger states. What was learned "
            "before stays as it is"
        )


def multi_model_loss(
    teachers: Sequence[Teacher], weight: float, auxiliary: float, model: nn.Module, images: Tensor, labels: Tensor
) -> Tensor:
    """Classification, and each teacher's distillation on its own classes; the same of the auxiliary classifier."""
    found: Inside = model(images, inside="maps")
    assert found.auxiliary_NC is not None
    outer, inner = F.cross_entropy(found.scores_NC, labels), F.cross_entropy(found.auxiliary_NC, labels)
    for classes, teacher in teachers:
        before = teacher_inside(teacher, images, "maps")
        assert before.auxiliary_NC is not None
        outer = outer + weight * divergence(found.scores_NC[:, classes], before.scores_NC)
        inner = inner + weight * divergence(found.auxiliary_NC[:, classes], before.auxiliary_NC)
    return outer + auxiliary * inner


def divergence(scores_NP: Tensor, before_NP: Tensor) -> Tensor:
    """Distillation without what the teacher itself leaves open: with many teachers the rest would hardly be seen to
    fall. Gradients are the same."""
    return distillation_loss(scores_NP, before_NP) - distillation_loss(before_NP, before_NP)
