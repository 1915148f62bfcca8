"""Packnet: one network for all states. Each state prunes what it has learned, and the next one learns in what is free.

Shapes: D features of one state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network, drawn_linear
from scail.networks.packed import FREE, Packed, Packing, kept_weights, packable
from scail.runtime.seeds import generator_for
from scail.training.apart import joined, learn_past, new_classes_loss
from scail.training.joint import Joint
from scail.training.loop import LOOP_VERSION, fit
from scail.training.task import Task
from scail.training.trainer import Trainer

PRUNED = 0.75
"""The share of its weights that a state gives up; a schedule may have another, as `pruned`."""


@dataclass(frozen=True)
class Packnet(Trainer):
    """A state trains all weights that are free, keeps the largest of each layer, and trains these some more. Weights of
    earlier states are seen by it, and never move."""

    title = "PackNet"
    schedules = ("first", "packnet", "packnet_retraining")
    least_classes = 2
    apart = True
    first: Joint
    schedule: Schedule
    """Every later state."""
    retraining: Schedule
    """After the pruning, in every state."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 begins as in `Joint`."""
        first = Joint.of(recipe, schedules, total_classes)
        return cls(first, schedules["packnet"], schedules["packnet_retraining"])

    @property
    def pruned(self) -> float:
        """The share of its weights that a state gives up."""
        return PRUNED if self.schedule.pruned is None else self.schedule.pruned

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            plain = self.first.train(task)
            free = {name: torch.ones_like(w, dtype=torch.bool) for name, w in packable(plain.backbone).items()}
            owners = {name: torch.zeros_like(w, dtype=torch.int16) for name, w in free.items()}
            return self._packed(plain, owners, free, task)
        network = task.previous.clone().to(task.fabric.device)
        assert isinstance(network.backbone, Packed)
        features = network.feature_size // network.backbone.states
        if task.num_classes > task.past_classes:
            network = self._with_new_classes(network, network.backbone, features, task)
        learn_past(network, task, self.retraining, features)
        return network

    def _with_new_classes(self, before: Network, packed: Packed, features: int, task: Task) -> Network:
        """The new classes, learned in the weights that are free."""
        owners, past = packed.owner_of, task.past_classes
        free = {name: owner == FREE for name, owner in owners.items()}
        self._check_capacity(free, task)
        network = Network(before.name, Packing(packed.shared, free, norms=False), features, before.channels, 1)
        network.mean, network.std = before.mean, before.std
        draw = generator_for(task.seed, "linear", task.state)
        network.linear = drawn_linear(features, task.num_classes - past, draw)
        own = task.of((task.labels >= past).nonzero().flatten())
        fit(network, own, self.schedule, partial(new_classes_loss, past))
        _merge(network)
        learned = self._packed(network, owners, free, own)
        learned.linear = joined(before.linear, learned.linear)
        return learned

    def _packed(
        self, network: Network, owners: Mapping[str, Tensor], free: Mapping[str, Tensor], task: Task
    ) -> Network:
        """Prune what was trained in the free weights, train what is kept, and give it to this state."""
        weights = packable(network.backbone)
        kept = {name: kept_weights(weights[name].detach(), free[name], self.pruned) for name in free}
        with torch.no_grad():
            for name, weight in weights.items():
                weight *= ~(free[name] & ~kept[name])
        state = 1 + max(int(owner.max()) for owner in owners.values())
        network.backbone = Packing(network.backbone, kept, norms=task.past_classes == 0)
        loss = partial(new_classes_loss, task.past_classes)
        fit(network, task, self.retraining, loss, stage="retraining")
        _merge(network)
        features = network.feature_size
        owned = {name: torch.where(kept[name], state, owner).to(torch.int16) for name, owner in owners.items()}
        network.become(Packed(network.backbone, owned), state * features)
        return network

    def _check_capacity(self, free: Mapping[str, Tensor], task: Task) -> None:
        """An error where a layer has no weight left that is free."""
        full = [name.removesuffix(".weight") for name, of_layer in free.items() if not bool(of_layer.any())]
        if full:
            shown = sum(int(of.sum()) for of in free.values()) / sum(of.numel() for of in free.values())
            raise ValueError(
                f"PackNet has no capacity left for state {task.state}: {len(full)} of {len(free)} layers have no free "
                f"weight, as {full[0]}; of the whole network {100 * shown:.2g} % is free, and each "
                f"state keeps {100 * (1 - self.pruned):g} % of what was free before it. Keep less "
                "(schedule packnet: pruned, as 0.9), learn more classes at once, or take a wider network (as resnet8x2)"
            )

    def epochs(self, state: int, images: int) -> int:
        """Both steps."""
        first = self.schedule.most_epochs(images) if state else self.first.epochs(state, images)
        return first + self.retraining.most_epochs(images)

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """Images of new classes alone."""
        own = sum(counts[past:])
        return own * self.epochs(state, own)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own: dict[str, object] = {"retraining": self.retraining.record(), "pruned": self.pruned}
        own |= {"schedule": self.schedule.record()} if state else {"first": self.first.settings(state)}
        return {"trainer": "packnet", "version": 1, "loop": LOOP_VERSION, **own}


def _merge(network: Network) -> None:
    """The backbone itself has all weights again, those that moved and those that did not."""
    packing = network.backbone
    assert isinstance(packing, Packing)
    with torch.no_grad():
        weights = packing.weights()
        for name, weight in packable(packing.backbone).items():
            weight.copy_(weights[name])
    network.backbone = packing.backbone
