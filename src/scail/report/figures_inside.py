"""Pictures of what is inside: scores, ranked weights, the memory, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scail.report.drawing import NEW, PAST, new_figure, plain, shown_methods, state_ticks
from scail.report.runs import by_trajectory
from scail.results.row import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def scores(rows: Sequence[Row]) -> Figure | None:
    """Raw and scaled scores of the true class (Figures 2a and 3)."""
    shown = shown_methods(rows)
    if not shown:
        return None
    figure, axes = new_figure(len(shown), "Mean score of the true class, for test images of past and new classes")
    for axis, (title, mine) in zip(axes, shown, strict=True):
        states = [r for r in mine if r.state > 0]
        for group, colour in (("past", PAST), ("new", NEW)):
            values = [float("nan") if (score := r.scores[group]) is None else score for r in states]
            axis.plot([r.state for r in states], values, "o-", color=colour, label=f"{group} classes", markersize=4)
        axis.set(title=title, xlabel="state", ylabel="mean score")
        axis.set_xticks(state_ticks([r.state for r in states]))
        axis.legend(frameon=False, fontsize=8)
    return figure


def weights(records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Mean magnitudes at each rank, in the last state (Figure 2b)."""
    records = [record for record in records if record["trainer"] == "fine_tune"]
    if not records:
        return None
    select = records[-1]["select"]
    last = max((r for r in records if r["select"] == select), key=lambda record: record["state"])
    if "past" not in last["ranked"]:
        return None
    figure, (axis,) = new_figure(1, f"Mean |weight| by rank, state {last['state']}", width=6.5)
    names = {"new": ("new classes", NEW), "past": ("past classes, now", PAST),
             "past_initial": ("past classes, initial state", "black")}  # fmt: skip
    for name, (label, colour) in names.items():
        values = last["ranked"][name]
        axis.plot(range(1, len(values) + 1), values, color=colour, label=label)
    axis.set(xlabel="rank of the weight in its row", ylabel="mean |weight|", ylim=(0, None))
    axis.legend(frameon=False, fontsize=8)
    return figure


def memory(records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Exemplars of a class after each state."""
    found = by_trajectory(records)
    if not found:
        return None
    mine = next(iter(found.values()))  # places follow from the budget alone, so that all trajectories look alike
    states = [record["state"] for record in mine]
    counts = [[count for count, _ in record["kept"]] for record in mine]
    figure, (axis,) = new_figure(1, "Exemplars of a class, after each state")
    axis.plot(states, [max(of, default=0) for of in counts], "o-", color=NEW, label="the class with most", markersize=4)
    axis.plot(
        states, [min(of, default=0) for of in counts], "s--", color=PAST, label="the class with fewest", markersize=4
    )
    axis.set(xlabel="state", ylabel="exemplars of a class", ylim=(0, None))
    axis.legend(frameon=False, fontsize=8)
    return figure


def timing(records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Seconds of each trajectory: learning, and measuring its methods."""
    found = by_trajectory(records)
    if not found:
        return None
    titles = [plain(title) for title in found][::-1]
    learning, measuring = (
        [sum(r[name] for r in of) for of in [*found.values()][::-1]] for name in ("seconds", "evaluation")
    )
    figure, (axis,) = new_figure(1, "Time of each trajectory", width=6.5)
    axis.barh(titles, learning, color=NEW, label="learning")
    axis.barh(titles, measuring, left=learning, color="#f4b060", label="measuring")
    axis.grid(axis="y", visible=False)
    axis.set(xlabel="seconds")
    axis.legend(frameon=False, fontsize=8)
    return figure
