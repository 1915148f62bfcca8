"""Pictures of errors: the six counts per state, where wrong past classes come from, and confusion between states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scail.evaluation import ERROR_KINDS
from scail.report.drawing import new_figure, plain, shown_methods, state_ticks
from scail.report.page_bulk import in_blocks
from scail.report.runs import FinishedRun
from scail.results.confusion_matrices import ConfusionMatrices
from scail.results.row import Row
from scail.results.run_directory import confusion_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Blue is right, orange and purple are wrong: told apart with every usual kind of colour vision.
_ERROR_COLOURS = dict(zip(ERROR_KINDS, ("#0a4f94", "#f4b060", "#b3470a", "#7db5ea", "#f7dcb4", "#7a3d9e"), strict=True))
_ERROR_MEANING = {
    "c(p)": "past, correct", "e(p,p)": "past, taken for past", "e(p,n)": "past, taken for new",
    "c(n)": "new, correct", "e(n,n)": "new, taken for new", "e(n,p)": "new, taken for past",
}  # fmt: skip

_MOST_NAMES = 30
"""With more classes than this their names do not fit beside a matrix."""


def errors(rows: Sequence[Row]) -> Figure | None:
    """The six counts, as shares of the test images."""
    shown = shown_methods(rows)
    if not shown:
        return None
    figure, axes = new_figure(len(shown), "What becomes of the test images (top-1)")
    for axis, (title, mine) in zip(axes, shown, strict=True):
        states = [r for r in mine if r.state > 0]
        base = [0.0] * len(states)
        for kind in ERROR_KINDS:
            share = [100 * r.errors[kind] / r.test_images for r in states]
            label = f"{kind}  {_ERROR_MEANING[kind]}"
            axis.bar([r.state for r in states], share, bottom=base, color=_ERROR_COLOURS[kind], label=label)
            base = [b + s for b, s in zip(base, share, strict=True)]
        axis.set(title=title, xlabel="state", ylabel="share of test images (%)", ylim=(0, 100))
        axis.set_xticks(state_ticks([r.state for r in states]))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


def origins(rows: Sequence[Row]) -> Figure | None:
    """e(p,p) by the state in which the wrongly predicted class was new (Figure 4)."""
    from matplotlib import colormaps

    shown = [(title, mine) for title, mine in shown_methods(rows) if any(r.past_errors_by_origin for r in mine)]
    if not shown:
        return None
    figure, axes = new_figure(len(shown), "Past images taken for another past class: the state it comes from")
    for axis, (title, mine) in zip(axes, shown, strict=True):
        states = [r for r in mine if r.state > 0]
        base = [0] * len(states)
        for origin in range(max(r.state for r in states)):
            counts = [r.past_errors_by_origin[origin] if origin < r.state else 0 for r in states]
            shade = colormaps["viridis"](origin / max(1, len(states) - 1))
            axis.bar([r.state for r in states], counts, bottom=base, color=shade, label=f"from state {origin}")
            base = [b + c for b, c in zip(base, counts, strict=True)]
        axis.set(title=title, xlabel="state", ylabel="e(p,p), images")
        axis.set_xticks(state_ticks([r.state for r in states]))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


def confusion(run: FinishedRun) -> Figure | None:
    """FT and ScaIL after the last state: between classes where their names fit, else between the classes of states."""
    found, names = [], run.config["class_order"]
    named = len(names) <= _MOST_NAMES
    sizes = [1] * len(names) if named else run.config["state_sizes"]
    for title, rows in shown_methods(run.rows):
        last = rows[-1]
        path = confusion_file(run.path, last.method, last.select)
        if path.is_file():
            blocks = in_blocks(ConfusionMatrices(path, run.config["state_sizes"]).of(last.state), sizes)
            found.append((title, 100 * blocks / blocks.sum(1, keepdims=True).clip(1)))
    if not found:
        return None
    of = "their true and predicted classes" if named else "the states of their true and predicted classes"
    figure, axes = new_figure(len(found), f"Test images by {of}", width=4.6)
    for axis, (title, shares) in zip(axes, found, strict=True):
        image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=100)
        axis.grid(visible=False)
        start = "" if named else "state of the "
        axis.set(title=title, xlabel=f"{start}predicted class", ylabel=f"{start}true class")
        if named:
            axis.set_xticks(range(len(names)), map(plain, names), rotation=90, fontsize=6)
            axis.set_yticks(range(len(names)), map(plain, names), fontsize=6)
    figure.colorbar(image, ax=list(axes), label="share of the row (%)")
    return figure
