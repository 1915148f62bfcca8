"""LwfSoftmax: learning without forgetting, with a softmax. No image of a past class is seen again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from scail.networks.network import Network
from scail.training.end_to_end import distilled_cross_entropy
from scail.training.fine_tune import FineTune
from scail.training.loop import fit
from scail.training.losses import teacher_of
from scail.training.task import Task


@dataclass(frozen=True)
class LwfSoftmax(FineTune):
    """Fine tuning that keeps the rows of past classes, and holds on to what the network before says."""

    title = "LwF^softmax"
    taught = True

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            return self.first.train(task)
        network = replace(self, keep_past_rows=True).widened(task, task.previous)
        teacher = teacher_of(task.previous).to(task.fabric.device)
        fit(network, task, self.schedule, partial(distilled_cross_entropy, teacher))
        return network

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is shared with every trajectory that begins alike."""
        found = super().settings(state)
        return found | {"trainer": "lwf_softmax", "keep_past_rows": True} if state else found
