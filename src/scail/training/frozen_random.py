"""FrozenRandom: a frozen network followed by random features, in which classes are easier to tell apart (RanPAC)."""

from __future__ import annotations

from dataclasses import dataclass

from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training.frozen import Frozen
from scail.training.task import Task


@dataclass(frozen=True)
class FrozenRandom(Frozen):
    """The features times a random matrix, negative ones set to 0 (McDonnell et al. 2023); then as `Frozen`."""

    title = "frozen, random features"

    def train(self, task: Task) -> Network:
        """In state 0 the random matrix is drawn, once and for all."""
        network = super().train(task)
        if task.previous is not None:
            return network
        return network.projected(random_features(network.feature_size), generator_for(task.seed, "projection"))

    def settings(self, state: int) -> dict[str, object]:
        """No state is another trainer's: the features are others."""
        return {**super().settings(state), "random features": 1}


def random_features(features: int) -> int:
    """How many random features: as many as pay on a CPU, where the time to solve grows with their third power.

    >>> random_features(64), random_features(1280)
    (500, 2000)
    """
    return min(2000, max(500, 4 * features))
