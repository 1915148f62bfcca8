"""DerPruned: DER whose new extractors learn which of their channels they can do without, and lose them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from torch import Tensor, nn

from scail.config import Recipe, Schedules
from scail.networks.channels import Masked
from scail.networks.grown import Grown
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training.der import TEMPERATURE, Der, auxiliary_classifier, expanded_loss
from scail.training.joint import Joint
from scail.training.loop import fit, passes_of_epoch
from scail.training.task import Task

SPARSITY = 0.75
"""Weight of the sparsity loss; a schedule may have another, as its `distillation`."""
STEEPEST = 10.0
"""The largest s of the masks."""


@dataclass(frozen=True)
class DerPruned(Der):
    """As DER; in the first step the inner channels of the new extractor have masks, and a loss asks for few of them.
    Channels that are masked in the end are removed."""

    title = "DER^pruned"
    schedules = ("der_pruned", "der_classifier")

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With its two schedules; state 0 has the first of them, and no masks."""
        schedules["der_pruned"].weights((SPARSITY,))
        schedules["der_classifier"].weights((TEMPERATURE,))
        plain = replace(schedules["der_pruned"], distillation=())
        first = Joint.of(recipe, Schedules(schedules, first=plain), total_classes)
        return cls(first, schedules["der_pruned"], schedules["der_classifier"])

    def expand(self, network: Network, task: Task) -> None:
        """The first step: one more extractor, trained with masks and without what they took away."""
        network.grow(like=0)
        assert isinstance(network.backbone, Grown)
        parts, (sparsity,) = network.backbone.parts, self.schedule.weights((SPARSITY,))
        masked = Masked(parts[-1], passes_of_epoch(task, self.schedule), STEEPEST)
        parts[-1] = masked
        network.recreate_linear(task.num_classes, generator_for(task.seed, "linear", task.state))
        loss = partial(sparse_loss, sparsity, task.past_classes, task.num_classes)
        with auxiliary_classifier(network, task):
            fit(network, task, self.schedule, loss)
        parts[-1] = masked.pruned()

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is shared with every trajectory that begins alike."""
        return super().settings(state) | ({"trainer": "der_pruned"} if state else {})


def sparse_loss(sparsity: float, past: int, classes: int, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """DER's loss, plus the weighted share of weights that the masks leave."""
    loss = expanded_loss(past, classes, model, images, labels)
    (masked,) = (module for module in model.modules() if isinstance(module, Masked))
    return loss + sparsity * masked.sparsity()
