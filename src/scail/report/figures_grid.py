"""Pictures of a comparison: accuracy against the memory B and against the number of states Z."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from scail.report.drawing import many_colours, new_figure, style_of
from scail.report.grid import label_of
from scail.report.protocol import Column, Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Vary = Literal["memory", "states"]
_TITLES = {"memory": ("memory B (images)", "Z"), "states": ("states Z", "B")}


def series(one: Comparison) -> Iterator[tuple[Vary, int, list[Column]]]:
    """(what varies, the value of the other, the configurations in order), wherever only one of B and Z varies.

    Where other settings differ too, two configurations may have the same Z and B, and there is no such series.
    """
    if one.differing:
        return
    pairs: tuple[tuple[Vary, Vary], ...] = (("memory", "states"), ("states", "memory"))
    for vary, keep in pairs:
        for fixed in sorted({getattr(config, keep) for config in one.configurations}):
            mine = [config for config in one.configurations if getattr(config, keep) == fixed]
            if len({getattr(config, vary) for config in mine}) > 1:
                yield vary, fixed, sorted(mine, key=lambda config, vary=vary: getattr(config, vary))  # type: ignore[misc]


def draw_series(vary: Vary, fixed: int, configurations: list[Column]) -> Figure:
    """Mean top-5 and top-1 of every method, over the values of what varies."""
    x_title, other = _TITLES[vary]
    figure, axes = new_figure(2, f"Accuracy against {x_title}, {other}={fixed}")
    records = [{label_of(record): record for record in config.summary["methods"]} for config in configurations]
    labels = list(dict.fromkeys(label for of in records for label in of))
    names = [f"{getattr(config, vary):,}" for config in configurations]
    for axis, value in zip(axes, ("top5", "top1"), strict=True):
        for n, label in enumerate(labels):
            found = [(names[i], of[label]) for i, of in enumerate(records) if label in of]
            style = style_of(found[0][1]["select"])
            axis.plot(
                [name for name, _ in found], [record[value] for _, record in found], f"o{style}", label=label,
                color=f"C{n}" if len(labels) <= 10 else many_colours(n), markersize=4,
            )  # fmt: skip
        axis.set(xlabel=x_title, ylabel=f"{value[:3]}-{value[3:]}, mean over states (%)", ylim=(0, 101))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure
