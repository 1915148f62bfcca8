"""Fearnet: a frozen network, a memory of recent features, a memory that dreams up features of long ago, and a gate.

Shapes: N features at hand, D numbers each, U hidden units; M classes of the long memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network, extract_features
from scail.networks.two_memories import Sizes, TwoMemories, two_memories
from scail.runtime.seeds import generator_for
from scail.training.consolidation import (
    INNER,
    INPUT,
    draw_layers,
    on_average,
    train_gate,
    train_long_memory,
    widened,
)
from scail.training.frozen import Frozen
from scail.training.loop import LOOP_VERSION
from scail.training.task import Task
from scail.training.trainer import Trainer

HIDDEN, CODE = 140, 130
"""Units of the long memory's layers."""


@dataclass(frozen=True)
class Fearnet(Trainer):
    """State 0 trains the network as in `Frozen`, and the long memory. Later new classes are recent ones: their features
    are kept as they are, until the next state begins, and they go over into the long memory."""

    title = "FearNet"
    schedules = ("first", "fearnet_base", "fearnet_sleep")
    own_layer = False
    frozen_network: Frozen
    base: Schedule
    """The long memory in state 0."""
    sleep: Schedule
    """The long memory later, and the gate."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 as in `Frozen`."""
        for name in ("fearnet_base", "fearnet_sleep"):
            schedules[name].weights((INPUT, INNER))
        frozen = Frozen.of(recipe, schedules, total_classes)
        return cls(frozen, schedules["fearnet_base"], schedules["fearnet_sleep"])

    def train(self, task: Task) -> Network:
        """The network of before with other memories; in state 0, a network that is frozen from here on."""
        if task.previous is None:
            network = self.frozen_network.train(task)
            features = extract_features(network, task.images, task.ranks)
            memories = task.ranks.decided(
                partial(self._state_dict, partial(self._begin, network.cpu(), features, task))
            )
            return with_memories(network, memories, task)
        before = task.previous.clone()
        assert isinstance(before.backbone, TwoMemories)
        features = extract_features(_bare(before).to(task.fabric.device), task.images, task.ranks)
        memories = task.ranks.decided(partial(self._state_dict, partial(self._go_on, before.cpu(), features, task)))
        return with_memories(_bare(before), memories, task)

    def _state_dict(self, make: Callable[[], TwoMemories]) -> tuple[Sizes, dict[str, Tensor]]:
        """Memories that rank 0 makes, for all."""
        made = make()
        return made.sizes, {n: t for n, t in made.state_dict().items() if not n.startswith("backbone.")}

    def _begin(self, network: Network, features_ND: Tensor, task: Task) -> TwoMemories:
        """The long memory of the classes of state 0."""
        memories = two_memories(network.backbone, Sizes(features_ND.shape[1], HIDDEN, CODE, task.num_classes, 0, 0))
        draw_layers(memories, task)
        memories.centre_D.copy_(features_ND.mean(0))
        memories.spread_D.copy_(features_ND.std(0, correction=0).clamp(min=1e-6))
        x_ND = memories.standardised(features_ND)
        train_long_memory(memories, x_ND, task.labels, self.base, task)
        return memories

    def _go_on(self, before: Network, features_ND: Tensor, task: Task) -> TwoMemories:
        """Sleep, and then recent classes: the new ones; where none is new, those of before."""
        old = before.backbone
        assert isinstance(old, TwoMemories)
        columns = before.linear.weight.argmax(1).tolist()  # where the classes that were not forgotten stand
        x_ND, some_new = old.standardised(features_ND), task.num_classes > task.past_classes
        recent = [c for c, column in enumerate(columns) if column >= old.sizes.long]
        long = [column for column in columns if column < old.sizes.long]
        vectors = [old.vectors_of(columns[c] - old.sizes.long) for c in recent]
        at_hand = [x_ND[task.labels == c] for c in range(task.num_classes)]
        vectors = [torch.cat([known, at_hand[c]]) for c, known in zip(recent, vectors, strict=True)]
        real = {c: at_hand[c] for c in range(len(long)) if len(at_hand[c])}
        if some_new:  # what was recent goes over
            real |= dict(zip(recent, vectors, strict=True))
            vectors = at_hand[task.past_classes :]
        memories = widened(old, long, vectors, len(long) + (len(recent) if some_new else 0), task)
        each = on_average([*vectors] if not real else [*real.values()])
        draw = partial(generator_for, task.seed, "fearnet", task.state, "dream")
        dreamt = [old.decoded(column, each, draw(c)) for c, column in enumerate(long)]
        if real:
            mixed = [torch.cat([of, real[c]]) if c in real else of for c, of in enumerate(dreamt)]
            mixed += [real[c] for c in range(len(long), memories.sizes.long)]
            labels = torch.arange(len(mixed)).repeat_interleave(torch.tensor([len(of) for of in mixed]))
            train_long_memory(memories, torch.cat(mixed), labels, self.sleep, task)
        if vectors:
            train_gate(memories, vectors, self.sleep, task)
        return memories

    def epochs(self, state: int, images: int) -> int:
        """The network is trained in state 0 alone; memories go through features."""
        return self.frozen_network.epochs(state, images)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        own = {"base": self.base.record(), "sleep": self.sleep.record(), "units": [HIDDEN, CODE]}
        return {
            "trainer": "fearnet",
            "version": 1,
            "loop": LOOP_VERSION,
            "first": self.frozen_network.settings(0),
            **own,
        }


def with_memories(network: Network, made: tuple[Sizes, dict[str, Tensor]], task: Task) -> Network:
    """The network with these memories behind its backbone, and a layer that changes nothing."""
    sizes, tensors = made
    memories = two_memories(network.backbone, sizes)
    memories.load_state_dict(tensors | {f"backbone.{n}": t for n, t in network.backbone.state_dict().items()})
    count = sizes.long + sizes.recent
    found = Network(network.name, memories, count, network.channels, count)
    found.mean, found.std = network.mean, network.std
    with torch.no_grad():
        found.linear.weight.copy_(torch.eye(count))
        found.linear.bias.zero_()
    return found.to(task.fabric.device)


def _bare(network: Network) -> Network:
    """The frozen network alone."""
    memories = network.backbone
    assert isinstance(memories, TwoMemories)
    found = Network(network.name, memories.backbone, memories.sizes.features, network.channels, 1)
    found.mean, found.std = network.mean, network.std
    return found
