"""EndToEnd: end-to-end incremental learning. FT^BAL's two steps, with distillation in both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Recipe, Schedules
from scail.networks.network import Network
from scail.training.balanced import Balanced
from scail.training.losses import BatchLoss, distillation_loss, teacher_of, teacher_scores
from scail.training.task import Task


@dataclass(frozen=True)
class EndToEnd(Balanced):
    """As `Balanced`, with a distillation term on the past outputs in both steps; past rows of the layer are kept."""

    title = "E2E"
    taught = True

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """Without the past rows there would be nothing to distil into."""
        return super().of(replace(recipe, keep_past_rows=True), schedules, total_classes)

    def loss(self, task: Task, previous: Network) -> BatchLoss:
        """Classification and distillation."""
        return partial(distilled_cross_entropy, teacher_of(previous).to(task.fabric.device))

    def settings(self, state: int) -> dict[str, object]:
        """Those of `Balanced`, under another name."""
        found = super().settings(state)
        return {**found, "trainer": "e2e"} if state else found


def distilled_cross_entropy(teacher: Network, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Classification loss plus distillation on the outputs that the teacher has."""
    scores, past = model(images), teacher_scores(teacher, images)
    return F.cross_entropy(scores, labels) + distillation_loss(scores[:, : past.shape[1]], past)
