"""The paper's figures from a run directory: accuracy, errors, scores and weights, as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scail.evaluation import ERROR_KINDS
from scail.results import Row, RunDirectory, read_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ERROR_COLOURS = dict(zip(ERROR_KINDS, ("#1b7837", "#fdae61", "#d73027", "#7fbf7b", "#abd9e9", "#4575b4"), strict=True))
_ERROR_MEANING = {
    "c(p)": "past, correct", "e(p,p)": "past, taken for past", "e(p,n)": "past, taken for new",
    "c(n)": "new, correct", "e(n,n)": "new, taken for new", "e(n,p)": "new, taken for past",
}  # fmt: skip
_MOST_LINES = 14
_STYLES = {"random": "--", "herding": "-", None: "-"}


def write_figures(run: RunDirectory) -> list[Path]:
    """Draw every figure that the run's results allow, into `figures/`."""
    rows = run.rows()
    weights = read_lines(run.path / "weights.jsonl")
    drawn = {
        "accuracy": _accuracy(rows),
        "errors": _errors(rows),
        "origins": _origins(rows),
        "scores": _scores(rows),
        "weights": _weights(weights),
    }
    (run.path / "figures").mkdir(exist_ok=True)
    paths = []
    for name, figure in drawn.items():
        if figure is not None:
            path = run.path / "figures" / f"{name}.png"
            figure.savefig(path, dpi=130, bbox_inches="tight")
            paths.append(path)
    return paths


def _new_figure(columns: int, title: str, width: float = 5.2) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, 3.8), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.25)
    return figure, axes


def _trajectories(rows: Sequence[Row]) -> dict[tuple[str, str, str | None], list[Row]]:
    """Rows by (method, label, selection), each sorted by state; Full left out."""
    found: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in sorted(rows, key=lambda r: r.state):
        if row.method != "full":
            found.setdefault((row.method, row.label, row.select), []).append(row)
    return found


def _accuracy(rows: Sequence[Row]) -> Figure | None:
    found = _trajectories(rows)
    if not found:
        return None
    if len(found) > _MOST_LINES:  # one line per method: the last selection, which is herding where there is a choice
        found = {key: found[key] for key in {method: key for key in found for method in key[:1]}.values()}
    figure, axes = _new_figure(2, "Accuracy on all classes seen, after each state")
    labels = list(dict.fromkeys(label for _, label, _ in found))
    colours = {label: f"C{i}" if len(labels) <= 10 else _many_colours(i) for i, label in enumerate(labels)}
    several = len({select for _, _, select in found}) > 1
    for axis, name in zip(axes, ("top5", "top1"), strict=True):
        for (_, label, select), mine in found.items():
            strong = label in ("FT", "ScaIL")
            axis.plot(
                [r.classes for r in mine], [getattr(r, name) for r in mine], _STYLES[select], color=colours[label],
                label=_titled(label, select) if several else label,
                linewidth=2.2 if strong else 1.1, marker="o" if strong else None, markersize=3.5,
            )  # fmt: skip
        for row in rows:
            if row.method == "full":
                axis.axhline(getattr(row, name), color="black", linewidth=0.8, linestyle=":", label="Full")
        axis.set(xlabel="classes seen", ylabel=f"{name[:3]}-{name[3:]} accuracy (%)", ylim=(0, 101))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


def _many_colours(i: int) -> tuple[float, ...]:
    from matplotlib import colormaps

    return tuple(colormaps["tab20"](i % 20))


def _shown(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """FT and ScaIL of one selection, the last one (herding, where there is a choice)."""
    found = {key: mine for key, mine in _trajectories(rows).items() if key[0] in ("ft", "scail")}
    last = [*found][-1][2] if found else None
    return [
        (_titled(label, select, " exemplars"), mine) for (_, label, select), mine in found.items() if select == last
    ]


def _titled(label: str, select: str | None, what: str = "") -> str:
    return f"{label}, {select}{what}" if select else f"{label}, no memory"


def _errors(rows: Sequence[Row]) -> Figure | None:
    shown = _shown(rows)
    if not shown:
        return None
    figure, axes = _new_figure(len(shown), "What becomes of the test images (top-1)")
    for axis, (title, mine) in zip(axes, shown, strict=True):
        states = [r for r in mine if r.state > 0]
        base = [0.0] * len(states)
        for kind in ERROR_KINDS:
            share = [100 * r.errors[kind] / r.test_images for r in states]
            label = f"{kind}  {_ERROR_MEANING[kind]}"
            axis.bar([r.state for r in states], share, bottom=base, color=_ERROR_COLOURS[kind], label=label)
            base = [b + s for b, s in zip(base, share, strict=True)]
        axis.set(title=title, xlabel="state", ylabel="share of test images (%)", ylim=(0, 100))
        axis.set_xticks([r.state for r in states])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


def _origins(rows: Sequence[Row]) -> Figure | None:
    shown = [(title, mine) for title, mine in _shown(rows) if any(r.past_errors_by_origin for r in mine)]
    if not shown:
        return None
    figure, axes = _new_figure(len(shown), "Past images taken for another past class: the state it comes from")
    for axis, (title, mine) in zip(axes, shown, strict=True):
        states = [r for r in mine if r.state > 0]
        base = [0] * len(states)
        for origin in range(max(r.state for r in states)):
            counts = [r.past_errors_by_origin[origin] if origin < r.state else 0 for r in states]
            shade = str(0.15 + 0.7 * origin / max(1, len(states)))
            axis.bar([r.state for r in states], counts, bottom=base, color=shade, label=f"from state {origin}")
            base = [b + c for b, c in zip(base, counts, strict=True)]
        axis.set(title=title, xlabel="state", ylabel="e(p,p), images")
        axis.set_xticks([r.state for r in states])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


def _scores(rows: Sequence[Row]) -> Figure | None:
    shown = _shown(rows)
    if not shown:
        return None
    figure, axes = _new_figure(len(shown), "Mean score of the true class, for test images of past and new classes")
    for axis, (title, mine) in zip(axes, shown, strict=True):
        states = [r for r in mine if r.state > 0]
        for group, colour in (("past", "#d73027"), ("new", "#4575b4")):
            values = [float("nan") if (score := r.scores[group]) is None else score for r in states]
            axis.plot([r.state for r in states], values, "o-", color=colour, label=f"{group} classes", markersize=4)
        axis.set(title=title, xlabel="state", ylabel="mean score")
        axis.set_xticks([r.state for r in states])
        axis.legend(frameon=False, fontsize=8)
    return figure


def _weights(records: Sequence[dict[str, Any]]) -> Figure | None:
    records = [record for record in records if record["trainer"] == "fine_tune"]
    if not records:
        return None
    select = records[-1]["select"]
    last = max((r for r in records if r["select"] == select), key=lambda record: record["state"])
    if "past" not in last["ranked"]:
        return None
    figure, (axis,) = _new_figure(1, f"Mean |weight| by rank, state {last['state']}", width=6.5)
    names = {"new": ("new classes", "#4575b4"), "past": ("past classes, now", "#d73027"),
             "past_initial": ("past classes, initial state", "black")}  # fmt: skip
    for name, (label, colour) in names.items():
        values = last["ranked"][name]
        axis.plot(range(1, len(values) + 1), values, color=colour, label=label)
    axis.set(xlabel="rank of the weight in its row", ylabel="mean |weight|", ylim=(0, None))
    axis.legend(frameon=False, fontsize=8)
    return figure
