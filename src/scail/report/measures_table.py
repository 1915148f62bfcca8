"""Tables of all measures and of what methods cost, from a summary: methods by rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scail.report.table import about_mark, key_of, unlearned_mark
from scail.report.tabular import Cell, Tabular
from scail.results.measures import COST_TITLES, MEASURES
from scail.results.row import ON_LEARNING, SIZES

_SIDES = ("past_accuracy", "new_accuracy", "harmonic_mean")


def measures_table(summary: Mapping[str, Any], name: str = "measures", title: str = "All measures") -> Tabular:
    """Every measure of every method; the best of each in bold. Runs of older versions lack some: they are left out."""
    records = summary["methods"]
    shown = [one for one in MEASURES if any(record.get(one) is not None for record in records)]
    best = {one: best_of((record.get(one) for record in records), one) for one in shown}
    rows = [(label_with_select(r), [_measured(r, one, best[one]) for one in shown]) for r in records]
    meanings = "; ".join(f"{MEASURES[one].title}: {MEASURES[one].meaning}" for one in shown)
    about = f"percent; {meanings}{about_mark([summary])}"
    return Tabular(name, title, [MEASURES[one].title for one in shown], rows, about)


def best_of(values: Iterable[float | None], measure: str) -> float | None:
    """The best of these values."""
    known = [value for value in values if value is not None]
    lower = measure in MEASURES and MEASURES[measure].better == "lower"
    return (min if lower else max)(known, default=None)


def _measured(record: Mapping[str, Any], measure: str, best: float | None) -> Cell:
    value, spread = record.get(measure), record.get(f"{measure}_std")
    if value is None:
        return Cell("–")
    text = f"{value:.1f}" + ("" if spread is None else f"±{spread:.1f}") + unlearned_mark(record)
    return Cell(text, value == best, key_of(record))


def cost_table(summary: Mapping[str, Any], name: str = "cost", title: str = "What each method costs") -> Tabular:
    """What each method costs; of older versions, which did not count it, nothing."""
    records = [(label_with_select(record), record["cost"]) for record in summary["methods"] if record.get("cost")]
    if summary["full"] and summary["full"].get("cost"):
        records.append(("Full", summary["full"]["cost"]))
    rows = [(label, [Cell(amount(cost[one])) for one in COST_TITLES]) for label, cost in records]
    about = (
        "of one prediction after the last state: parameters and floating-point operations; bytes kept between states "
        "beside the network, at most; images that all trainings went through; seconds of all trainings, of each method "
        "as if it were trained alone"
    )
    return Tabular(name, title, [*COST_TITLES.values()], rows, about)


def label_with_select(record: Mapping[str, Any]) -> str:
    """A method and how its exemplars were chosen."""
    beyond = f"{record['label']}{'' if record['in_paper'] else '*'}"
    return f"{beyond}, {record['select']}" if record["select"] else beyond


def amount(value: float | None) -> str:
    """A number as it stands in a table of costs.

    >>> amount(1493632), amount(12.34), amount(None)
    ('1493632', '12.3', '–')
    """
    if value is None:
        return "–"
    return str(int(value)) if float(value).is_integer() else f"{value:.1f}"


def states_csv(summary: Mapping[str, Any]) -> tuple[list[str], Sequence[Sequence[object]]]:
    """Titles and lines: every method after every state."""
    names = ("top5", "top1", *_SIDES, *ON_LEARNING, *SIZES)
    lines = [
        [record["method"], record["select"] or "", record["memory"], of["state"], of["classes"], *_values(of, names)]
        for record in summary["methods"]
        for of in record["per_state"]
    ]
    return ["method", "select", "memory", "state", "classes", *names], lines


def matrix_csv(summary: Mapping[str, Any]) -> tuple[list[str], Sequence[Sequence[object]]]:
    """Titles and lines: top-1 of every method after every state, on the classes of each state so far."""
    lines = [
        [record["method"], record["select"] or "", record["memory"], of["state"], j, f"{value:.4f}"]
        for record in summary["methods"]
        for of in record["per_state"]
        for j, value in enumerate(of.get("by_state") or ())
    ]
    return ["method", "select", "memory", "after state", "classes of state", "top1"], lines


def _values(of: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [_plain(of.get(name)) for name in names]


def _plain(value: int | float | bool | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    return "" if value is None else f"{value:.4f}"
