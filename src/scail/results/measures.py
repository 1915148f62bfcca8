"""The measures of a method over a whole run: what the field reports, from the rows of its states.

The headline is the paper's: top-5, averaged over the incremental states 1..Z-1. The others stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scail.evaluation import backward_transfer, forgetting, harmonic_mean, incremental_mean
from scail.results.row import COSTS, Row


@dataclass(frozen=True)
class Measure:
    """One number that says how well a method does."""

    title: str
    meaning: str
    better: Literal["higher", "lower"] = "higher"


MEASURES: dict[str, Measure] = {
    "top5": Measure("top-5", "top-5, mean over states 1..Z-1 (the paper's headline)"),
    "top1": Measure("top-1", "top-1, mean over states 1..Z-1"),
    "last_top5": Measure("last top-5", "top-5 after the last state, on all classes"),
    "last_top1": Measure("last top-1", "top-1 after the last state, on all classes"),
    "mean_all_top5": Measure("top-5, 0..Z-1", "top-5, mean over all states, state 0 included"),
    "mean_all_top1": Measure("top-1, 0..Z-1", "top-1, mean over all states, state 0 included"),
    "past_accuracy": Measure("past", "top-1 on past classes, mean over states 1..Z-1"),
    "new_accuracy": Measure("new", "top-1 on new classes, mean over states 1..Z-1"),
    "harmonic_mean": Measure("harmonic", "harmonic mean of top-1 on past and on new classes, mean over states 1..Z-1"),
    "forgetting": Measure(
        "forgetting", "after the last state: by how much top-1 on each past state fell below its best (Chaudhry 2018)",
        "lower",
    ),
    "backward_transfer": Measure(
        "BWT", "after the last state: top-1 on each past state minus that right after it was learned (Lopez-Paz 2017)"
    ),
    "task_given": Measure(
        "task given",
        "top-1 where an image's state is given, and only the classes of that state compete, mean over states 1..Z-1: "
        "no measure of class-incremental learning, in which nobody gives it",
    ),
    "intransigence": Measure(
        "intransigence", "after the last state: Full's top-1 on its new classes minus the method's (Chaudhry 2018)",
        "lower",
    ),
}  # fmt: skip
"""By their names in summary.json; percent, or percentage points."""

COST_TITLES = {
    "parameters": "parameters", "flops": "FLOPs", "bytes_kept": "bytes kept", "image_passes": "image passes",
    "seconds": "seconds",
}  # fmt: skip
"""What a method costs, by the names in `cost` of its record in summary.json."""


def measures_of(rows: Sequence[Row], full: Row | None) -> dict[str, float | None]:
    """All measures of a method but G_IL, from its rows in order of state; None: cannot be computed from them."""
    found: dict[str, float | None] = {}
    for name in ("top5", "top1"):
        accuracies = [getattr(row, name) for row in rows]
        found[name] = incremental_mean(accuracies)
        found |= {f"last_{name}": accuracies[-1], f"mean_all_{name}": sum(accuracies) / len(accuracies)}
    sides = [past_and_new(row) for row in rows[1:]]
    for name in ("past_accuracy", "new_accuracy", "harmonic_mean"):
        values = [side[name] for side in sides if side[name] is not None]
        found[name] = sum(values) / len(values) if values and len(values) == len(sides) else None
    given = [row.task_given for row in rows[1:] if row.task_given is not None]
    found["task_given"] = sum(given) / len(given) if given and len(given) == len(rows) - 1 else None
    matrix = accuracy_matrix(rows)
    found["forgetting"] = forgetting(matrix) if matrix else None
    found["backward_transfer"] = backward_transfer(matrix) if matrix else None
    reference = by_state(full) if full is not None else None
    # Full of other states (it may be lent from another configuration) says nothing about these new classes.
    alike = full is not None and full.images_by_state == rows[-1].images_by_state
    found["intransigence"] = reference[-1] - matrix[-1][-1] if reference and matrix and alike else None
    return found


def past_and_new(row: Row) -> dict[str, Any]:
    """Top-1 on the test images of past and of new classes, and their harmonic mean; None: there are none."""
    past, new = (_right(row, of) for of in ("p", "n"))
    both = None if past is None or new is None else harmonic_mean(past, new)
    return {"past_accuracy": past, "new_accuracy": new, "harmonic_mean": both}


def _right(row: Row, of: str) -> float | None:
    counts = {kind: count for kind, count in row.errors.items() if kind[2] == of}
    images = sum(counts.values())
    return 100 * counts[f"c({of})"] / images if images else None


def by_state(row: Row) -> list[float] | None:
    """Top-1 on the classes of each state; None: not recorded, or a state has no test images."""
    if row.correct_by_state is None or row.images_by_state is None or 0 in row.images_by_state:
        return None
    return [100 * c / n for c, n in zip(row.correct_by_state, row.images_by_state, strict=True)]


def accuracy_matrix(rows: Sequence[Row]) -> list[list[float]] | None:
    """[k][j]: top-1 after state k on the classes of state j; None: not recorded for every state."""
    found = [of for row in rows if (of := by_state(row)) is not None]
    return found if len(found) == len(rows) and all(len(of) == k + 1 for k, of in enumerate(found)) else None


def cost_of(rows: Sequence[Row], seconds: Mapping[int, float | None]) -> dict[str, Any] | None:
    """What a method costs over the run; None: not recorded.

    One prediction after the last state; the most that is kept between two states; the passes and the seconds of all
    trainings. `seconds`: of each state's training.
    """
    costs = [row.cost for row in rows if row.cost is not None]
    if len(costs) < len(rows):
        return None
    found: dict[str, Any] = {name: costs[-1][name] for name in COSTS[:2]}
    found |= {"bytes_kept": max(cost["bytes_kept"] for cost in costs)}
    found |= {"image_passes": sum(cost["image_passes"] for cost in costs)}
    known = [value for row in rows if (value := seconds.get(row.state)) is not None]
    return found | {"seconds": sum(known) if len(known) == len(rows) else None}
