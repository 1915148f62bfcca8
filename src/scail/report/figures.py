"""The paper's figures from a run directory: accuracy, errors, scores, weights, memory, time; as PDF, SVG or PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scail.report import figures_cost, figures_errors, figures_inside
from scail.report.drawing import by_method, many_colours, new_figure, save, style_of, titled
from scail.report.grid import telling
from scail.report.runs import FinishedRun
from scail.results.row import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 14
Colour = str | tuple[float, ...]
Lines = dict[tuple[str, str, str | None], list[Row]]


FIGURES: dict[str, Callable[[FinishedRun], Figure | None]] = {
    "accuracy": lambda run: accuracy(run.rows),
    "past_new": lambda run: past_and_new(run.rows),
    "errors": lambda run: figures_errors.errors(run.rows),
    "origins": lambda run: figures_errors.origins(run.rows),
    "confusion": figures_errors.confusion,
    "scores": lambda run: figures_inside.scores(run.rows),
    "weights": lambda run: figures_inside.weights(run.weights),
    "memory": lambda run: figures_inside.memory(run.memory),
    "timing": lambda run: figures_inside.timing(run.timing),
    "cost": lambda run: figures_cost.cost(run.summary, telling({"": run.summary})),
}
PAPERS = ("accuracy", "errors", "origins", "scores", "weights")
"""Those that the paper has, too."""


def write_figures(
    run: FinishedRun, folder: Path, formats: Sequence[str], names: Sequence[str] = tuple(FIGURES)
) -> list[Path]:
    """Draw these figures, where the run's results allow it, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {name: FIGURES[name](run) for name in names}
    return [path for name, of in drawn.items() if of is not None for path in save(of, folder, name, formats)]


def _lines(rows: Sequence[Row]) -> Lines:
    """Every line; where they are too many one per method: herding where there is a choice."""
    found = by_method(rows)
    if len(found) <= _MOST_LINES:
        return found
    return {key: found[key] for key in {method: key for key in found for method in key[:1]}.values()}


def _colours(found: Lines) -> dict[str, Colour]:
    labels = list(dict.fromkeys(label for _, label, _ in found))
    return {label: f"C{i}" if len(labels) <= 10 else many_colours(i) for i, label in enumerate(labels)}


def accuracy(rows: Sequence[Row]) -> Figure | None:
    """Top-5 and top-1 on all classes seen, after each state."""
    found = _lines(rows)
    if not found:
        return None
    figure, axes = new_figure(2, "Accuracy on all classes seen, after each state")
    colours, several = _colours(found), len({select for _, _, select in found}) > 1
    for axis, name in zip(axes, ("top5", "top1"), strict=True):
        for (_, label, select), mine in found.items():
            strong = label in ("FT", "ScaIL")
            axis.plot(
                [r.classes for r in mine], [getattr(r, name) for r in mine], style_of(select), color=colours[label],
                label=titled(label, select) if several else label,
                linewidth=2.2 if strong else 1.1, marker="o" if strong else None, markersize=3.5,
            )  # fmt: skip
        for row in rows:
            if row.method == "full":
                axis.axhline(getattr(row, name), color="black", linewidth=0.8, linestyle=":", label="Full")
        axis.set(xlabel="classes seen", ylabel=f"{name[:3]}-{name[3:]} accuracy (%)", ylim=(0, 101))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


def past_and_new(rows: Sequence[Row]) -> Figure | None:
    """Top-1 on past classes and on new ones, after each incremental state."""
    found = _lines(rows)
    if not found:
        return None
    figure, axes = new_figure(2, "Top-1 accuracy on past and on new classes, after each state")
    colours, several = _colours(found), len({select for _, _, select in found}) > 1
    for axis, group, of in zip(axes, ("past", "new"), ("p", "n"), strict=True):
        for (_, label, select), mine in found.items():
            strong, states = label in ("FT", "ScaIL"), [r for r in mine if r.state > 0]
            axis.plot(
                [r.state for r in states], [_share(r, of) for r in states], style_of(select), color=colours[label],
                label=titled(label, select) if several else label, linewidth=2.2 if strong else 1.1,
            )  # fmt: skip
        axis.set(title=f"{group} classes", xlabel="state", ylabel="top-1 accuracy (%)", ylim=(0, 101))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


def _share(row: Row, of: str) -> float:
    """Percent of the test images of past (p) or new (n) classes that are right."""
    counts = {kind: count for kind, count in row.errors.items() if kind[2] == of}
    return 100 * counts[f"c({of})"] / max(1, sum(counts.values()))
