"""What trainings that are in the store took: of a kind that ends when its loss stops falling, nobody knows before."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from scail.benchmark.trajectory import Training, kind_of_training
from scail.storage.remote_store import open_store


@dataclass(frozen=True)
class Finished:
    """Which share of its epochs each finished training took, by its kind and by how many these were at most."""

    shares: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    @classmethod
    def in_store(cls, place: str | Path | None = None) -> Finished:
        """All that a store has; of one behind a URL, what this machine has copies of."""
        found = cls()
        for item in open_store(place, create=False).listing():
            facts, most = item.facts, item.facts.get("most_epochs")
            if most and facts.get("epochs"):
                kind = kind_of_training(facts["dataset"], facts["made_from"]["trainer"])
                found.add(kind, most, facts["epochs"] / most)
        return found

    def add(self, kind: str, most: int, share: float) -> None:
        """One more training of this kind, with so many epochs at most, took this share of them."""
        self.shares.setdefault(kind, {}).setdefault(most, []).append(share)

    def share(self, training: Training) -> float | None:
        """The mean share of those of its kind, of those with about as many epochs; None where there are none."""
        known = self.shares.get(training.kind, {})
        if not known:
            return None
        return mean(known[min(known, key=lambda most: abs(math.log(most / training.epochs)))])
