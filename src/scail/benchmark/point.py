"""One point of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scail.config import Experiment
from scail.results.archive import Pair


@dataclass(frozen=True)
class Point:
    """One point of a grid: an experiment, and what the grid is after."""

    experiment: Experiment
    asked: frozenset[Pair] = frozenset()
    """The (method, selection) that are asked for; empty: all that the experiment reads."""
    varying: Mapping[str, str] = field(default_factory=dict)
    """What else tells it from the others, beside data set, Z, B and seed: options and their values."""


MOST_POINTS = 10_000
"""Of one grid. The paper's Table 1 has twenty for each seed."""


def check_count(where: str, count: int) -> None:
    """A grid of more configurations than anybody runs is a mistake, told before they are made."""
    if count > MOST_POINTS:
        raise ValueError(
            f"{where}: {count:,} configurations, expected at most {MOST_POINTS:,}; give fewer values, or several grids"
        )
