"""FrozenRandom: a frozen network followed by random features, in which classes are easier to tell apart (RanPAC)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scail.config import Recipe, Schedules
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training.frozen import Frozen
from scail.training.joint import Joint
from scail.training.task import Task


@dataclass(frozen=True)
class FrozenRandom(Frozen):
    """The features times a random matrix, negative ones set to 0 (McDonnell et al. 2023); then as `Frozen`."""

    title = "frozen, random features"
    projection: int

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 as in `Joint`."""
        return cls(Joint.of(recipe, schedules, total_classes), recipe.projection)

    @classmethod
    def network_name(cls, recipe: Recipe) -> str:
        """With the number of random features."""
        return f"{recipe.network}+{recipe.projection}"

    def train(self, task: Task) -> Network:
        """In state 0 the random matrix is drawn, once and for all."""
        network = super().train(task)
        if task.previous is not None:
            return network
        return network.projected(self.projection, generator_for(task.seed, "projection"))

    def settings(self, state: int) -> dict[str, object]:
        """No state is another trainer's: the features are others."""
        return {**super().settings(state), "random features": self.projection}
