"""Frozen: a network that never moves after its start. What it has seen is kept as moments, and nothing is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from scail.config import Recipe, Schedules
from scail.datasets.dataset import Images
from scail.moments import Moments
from scail.networks.network import Network, extract_features
from scail.networks.onnx_features import onnx_features
from scail.runtime.ranks import ALONE, Ranks
from scail.runtime.seeds import generator_for
from scail.training.joint import Joint, first_network
from scail.training.task import Task, Trained
from scail.training.trainer import Trainer, check_shapes


@dataclass(frozen=True)
class Frozen(Trainer):
    """With pretrained weights nothing is trained at all; without, state 0 is, as in `Joint`."""

    title = "frozen"
    schedules = ("first",)
    own_layer = False
    frozen = True
    first: Joint

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 as in `Joint`."""
        return cls(Joint.of(recipe, schedules, total_classes))

    def train(self, task: Task) -> Network:
        """The network of the state before, as it is."""
        if task.previous is not None:
            return task.previous
        if self.first.weights is None:
            return self.first.train(task)
        return first_network(task, self.first.network, 1, generator_for(0, "not used"))

    def extract(self, network: Network, images: Images, ranks: Ranks = ALONE) -> Tensor:
        """Pretrained networks run on onnxruntime. One that was trained here shares its state 0 with other trainers."""
        if network.int8 is None and (self.first.weights is None or network.mean.device.type != "cpu"):
            return extract_features(network, images, ranks)
        return onnx_features(network, images, ranks)

    def complete(self, trained: Trained, task: Task) -> dict[str, Tensor]:
        """The moments, with the images that were not seen before: all but the exemplars."""
        first_seen = torch.ones(len(task.labels), dtype=torch.bool)
        first_seen[len(trained.new_labels) : len(trained.new_labels) + task.exemplars] = False
        moments = Moments.of(trained.features_ND[first_seen], task.labels[first_seen], task.num_classes)
        before = Moments.carried_in(task.carried)
        return (moments if before is None else before + moments).to_carry()

    def epochs(self, state: int, images: int) -> int:
        """Nothing is trained after state 0, and with pretrained weights nothing at all."""
        return 0 if state or self.first.weights else self.first.epochs(state, images)

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is the first training's, where there is one."""
        if state == 0 and self.first.weights is None:
            return self.first.settings(state)
        return {"trainer": "frozen", "version": 1, "network": self.first.network, "weights": self.first.weights}

    @classmethod
    def check_carried(cls, carried: Mapping[str, Tensor], classes: int, features: int) -> None:
        """Moments of so many classes and features."""
        check_shapes(carried, {"count_C": (classes,), "sum_CD": (classes, features), "gram_DD": (features, features)})
        if carried["count_C"].dtype != torch.int64 or int(carried["count_C"].min()) < 0:
            raise ValueError("count_C: expected whole numbers from 0 on")
        if any(carried[name].dtype != torch.float64 for name in ("sum_CD", "gram_DD")):
            raise ValueError("moments: expected numbers in double precision")

    @classmethod
    def without_class(cls, carried: Mapping[str, Tensor], label: int) -> dict[str, Tensor]:
        """Its count and its sum go; its part of the Gram matrix only whoever has its features can take out."""
        left = torch.arange(len(carried["count_C"])) != label
        return {**carried, "count_C": carried["count_C"][left], "sum_CD": carried["sum_CD"][left]}
