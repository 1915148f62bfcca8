"""Whether the networks learned: after each state of each training, what they know of their own images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scail.report.measures_table import label_with_select
from scail.report.tabular import Cell, Tabular
from scail.results.row import ON_LEARNING

_TITLES = {
    "top1": "top-1", "floor": "floor", "exemplar_top1": "exemplars", "new_top1": "new images",
    "initial_top1": "exemplars, initial classifiers", "drift": "drift", "learned": "learned",
}  # fmt: skip
_ABOUT = (
    "of the methods that are read from one training one is named; top-1: its accuracy on test images; floor: that of "
    "whoever knows the newest classes only; exemplars, new images: how many of those that it was trained with the "
    "network knows; initial classifiers: how many of these exemplars they still know; drift: 1 - the mean cosine of "
    "exemplars' features now and when their class was new"
)


def learning_table(summary: Mapping[str, Any], name: str = "learning", title: str = "Did it learn?") -> Tabular:
    """A row for each state of each training. Runs of older versions do not say it: they have no rows."""
    trainings: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for record in summary["methods"]:
        said = tuple(of.get(what) for of in record["per_state"] for what in ON_LEARNING)
        if any(value is not None for value in said):
            trainings.setdefault((record["select"], record["memory"], *said), record)
    rows = [
        (f"{label_with_select(record)}, state {of['state']}", [Cell(_text(what, of.get(what))) for what in _TITLES])
        for record in trainings.values()
        for of in record["per_state"]
    ]
    return Tabular(name, title, [*_TITLES.values()], rows, _ABOUT)


def _text(what: str, value: float | bool | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if what == "drift" else f"{value:.1f}"
