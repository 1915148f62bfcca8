"""Which method for this budget: accuracy against what is kept and against training, with the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scail.evaluation import pareto_front
from scail.report.drawing import many_colours, new_figure, style_of
from scail.report.measures_table import label_with_select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = {
    "bytes_kept": "bytes kept between states, beside the network",
    "image_passes": "images that went through training",
}
_GROWING = {
    "parameters": "parameters after the last state",
    "flops": "floating-point operations of a prediction after the last state",
}
"""Shown where they tell methods apart: where networks grow."""
_MARKS = {"-": "o", "--": "s", ":": "^"}


def cost(summary: Mapping[str, Any], value: str) -> Figure | None:
    """Mean accuracy of every method, against bytes kept and image passes, and against what grows; Full is the star."""
    records = [record for record in summary["methods"] if record.get("cost")]
    if not records:
        return None
    shown = _AXES | {kind: title for kind, title in _GROWING.items() if _apart([one["cost"][kind] for one in records])}
    figure, axes = new_figure(len(shown), "Accuracy against cost; the line joins what no cheaper method beats")
    for axis, (kind, title) in zip(axes, shown.items(), strict=True):
        _draw(axis, summary, records, kind, value)
        axis.set(xlabel=title, ylabel=f"{value[:3]}-{value[3:]}, mean over states 1..Z-1 (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=7, frameon=False)
    return figure


def _apart(costs: list[float]) -> bool:
    """Whether some are more than half as large again as others: heads alone differ by less."""
    return max(costs) > 1.5 * min(costs)


def _draw(axis: Axes, summary: Mapping[str, Any], records: list[Mapping[str, Any]], kind: str, value: str) -> None:
    costs, values = [record["cost"][kind] for record in records], [record[value] for record in records]
    labels = list(dict.fromkeys(record["label"] for record in records))
    for record, x, y in zip(records, costs, values, strict=True):
        colour, mark = many_colours(labels.index(record["label"])), _MARKS[style_of(record["select"])]
        axis.plot(x, y, mark, color=colour, label=label_with_select(record), markersize=5)
    front = pareto_front(costs, values)
    axis.plot([costs[i] for i in front], [values[i] for i in front], color="black", linewidth=0.8, zorder=0)
    for i in front:
        axis.annotate(
            label_with_select(records[i]), (costs[i], values[i]), (3, 4), textcoords="offset points", fontsize=6
        )
    full = summary["full"] or {}
    if full.get("cost"):
        axis.plot(full["cost"][kind], full[value], "*", color="black", label="Full", markersize=9)
        costs = [*costs, full["cost"][kind]]
    positive = [x for x in costs if x > 0]
    if positive and max(positive) > 20 * min(positive):
        axis.set_xscale("symlog", linthresh=min(positive))
