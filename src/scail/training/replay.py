"""Replay: experience replay. Every batch is half new images, half exemplars (Chaudhry et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scail.networks.network import Network
from scail.training.fine_tune import FineTune
from scail.training.loop import fit
from scail.training.task import Task


@dataclass(frozen=True)
class Replay(FineTune):
    """Fine tuning that shows the exemplars as often as the new images, and keeps the rows of past classes."""

    title = "ER"

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            return self.first.train(task)
        network = replace(self, keep_past_rows=True).widened(task, task.previous)
        new = int((task.labels >= task.past_classes).sum())
        fit(network, replace(task, half_new=new if new < len(task.images) else 0), self.schedule)
        return network

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """The new images, and as many exemplars beside them."""
        new = sum(counts[past:])
        if state == 0 or new == sum(counts):
            return super().passes(state, counts, past, budget)
        return 2 * new * self.epochs(state, 2 * new)

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is shared with every trajectory that begins alike."""
        found = super().settings(state)
        return found | {"trainer": "replay", "keep_past_rows": True} if state else found
