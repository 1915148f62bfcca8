"""FromMemory: GDumb. In every state a network is trained from scratch on a balanced memory (Prabhu et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from scail.exemplars import exemplar_draw, places
from scail.networks.network import Network
from scail.training.joint import Joint
from scail.training.task import Task


@dataclass(frozen=True)
class FromMemory(Joint):
    """As `Joint`, on the images that the memory holds after the state, and on no others."""

    title = "GDumb"
    at_once = False
    own_layer = True
    from_memory = True

    def train(self, task: Task) -> Network:
        """A fresh network, trained on the memory."""
        return super().train(task.of(kept_rows(task)))

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """Only what the memory keeps."""
        kept = sum(map(min, counts, places(budget[1], len(counts))))
        return kept * self.epochs(state, kept)

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        return super().settings(state) | {"trainer": "from_memory"}


def kept_rows(task: Task) -> Tensor:
    """The images of the task that random selection keeps: of each class as many as it has places."""
    rows = []
    for label, most in enumerate(
        places(task.budget if task.budget_after is None else task.budget_after, task.num_classes)
    ):
        at = (task.labels == label).nonzero().flatten()
        if label >= task.past_classes:
            at = at[torch.randperm(len(at), generator=exemplar_draw(task.seed, label))]
        rows.append(at[:most])
    return torch.cat(rows)
