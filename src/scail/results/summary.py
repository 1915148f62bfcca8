"""The table's numbers, from rows: measures and costs of each method, gaps to Full, means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from scail.evaluation import gap_to_full
from scail.results.measures import COST_TITLES, MEASURES, accuracy_matrix, cost_of, measures_of, past_and_new
from scail.results.row import ON_LEARNING, SIZES, Row

AVERAGING = "mean over the incremental states 1..Z-1; state 0 excluded"


_GAPS = ("gap_top1", "gap_top5")
_SIDES = ("past_accuracy", "new_accuracy", "harmonic_mean")


def summarise(rows: Sequence[Row], timing: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The table's numbers from the lines: one record per (method, selection, memory), and Full.

    `timing`: the lines that say how long each state of a trajectory took.
    """
    full = next((row for row in rows if row.method == "full"), None)
    records = [
        _record([row for row in rows if (row.method, row.select, row.memory) == key], full, timing)
        for key in dict.fromkeys((row.method, row.select, row.memory) for row in rows if row.method != "full")
    ]
    last = max((r.state for r in rows if r.method != "full"), default=0)
    exemplars = max((r.exemplars for r in rows if r.state == last and r.method != "full"), default=0)
    trained = {(r.trainer, r.select, r.memory, r.state): r.trained_epochs for r in rows}
    return {
        "methods": records,
        "full": _full_record(full, timing) if full else None,
        "trained_epochs": sum(trained.values()),
        "exemplars": exemplars,
        "averaging": AVERAGING,
    }


def _record(rows: Sequence[Row], full: Row | None, timing: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One method's line of the table, from its rows in all states."""
    rows = sorted(rows, key=lambda row: row.state)
    record: dict[str, Any] = {
        name: getattr(rows[0], name) for name in ("method", "label", "in_paper", "select", "memory")
    }
    record |= measures_of(rows, full)
    for name in ("top1", "top5"):
        reference = getattr(full, name) if full else 100
        # Where Full is missing or perfect there is no gap to measure.
        record[f"gap_{name}"] = gap_to_full([record[name]], reference) if reference < 100 else None
    record["cost"] = cost_of(rows, _seconds(rows[0], timing))
    names = ("state", "classes", "top1", "top5", *ON_LEARNING)
    matrix: Sequence[list[float] | None] = accuracy_matrix(rows) or [None] * len(rows)
    record["per_state"] = [
        {name: getattr(row, name) for name in names} | past_and_new(row) | {"by_state": of} | _size(row)
        for row, of in zip(rows, matrix, strict=True)
    ]
    return record


def _size(row: Row) -> dict[str, int]:
    """What the network has grown to in this state; nothing, where it was not recorded."""
    return {name: row.cost[name] for name in SIZES} if row.cost else {}


def _full_record(full: Row, timing: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    cost = cost_of([full], _seconds(full, timing))
    return {"top1": full.top1, "top5": full.top5} | ({"cost": cost} if cost else {})


def _seconds(row: Row, timing: Sequence[Mapping[str, Any]]) -> dict[int, float | None]:
    """How long the training of each state of this row's trajectory took."""
    of = (row.trainer, row.select, row.memory)
    return {
        line["state"]: line.get("training")
        for line in timing
        if (line["trainer"], line["select"], line.get("memory", row.memory)) == of
    }


def not_learned(record: Mapping[str, Any]) -> list[int]:
    """The states in which a method's network did not learn. Without a memory the floor is what to expect."""
    if record["memory"] == 0:
        return []
    return [of["state"] for of in record["per_state"] if of.get("learned") is False]


def summarise_seeds(summaries: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The mean over seeds of several summaries, in the same shape, with standard deviations beside the means."""
    first, *_ = summaries.values()
    together: dict[str, Any] = {"methods": [], "seeds": list(summaries), "averaging": first["averaging"]}
    by_method: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for summary in summaries.values():
        for record in summary["methods"]:
            by_method.setdefault(tuple(record[name] for name in ("method", "select", "memory")), []).append(record)
    for same in by_method.values():
        together["methods"].append(_mean_record(same[0], same, (*MEASURES, *_GAPS)))
        together["methods"][-1]["cost"] = _mean_cost(same)
        states = zip(*(one["per_state"] for one in same), strict=True)
        together["methods"][-1]["per_state"] = [_mean_state(of) for of in states]
        if len(same) < len(summaries):  # a method that was not run with every seed
            together["methods"][-1]["seeds"] = len(same)
    fulls = [summary["full"] for summary in summaries.values() if summary["full"]]
    together["full"] = _mean_record({}, fulls, ("top1", "top5")) | {"cost": _mean_cost(fulls)} if fulls else None
    together["trained_epochs"] = sum(summary["trained_epochs"] for summary in summaries.values())
    together["exemplars"] = max(summary["exemplars"] for summary in summaries.values())
    return together


def _mean_state(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same state of several seeds. It was learned where all of them were."""
    asked = [one["learned"] for one in same if one.get("learned") is not None]
    names = ("top1", "top5", *_SIDES, *ON_LEARNING, *SIZES)
    numbers = [name for name in names if name != "learned" and name in same[0]]
    matrices = [one["by_state"] for one in same if one.get("by_state") is not None]
    if "by_state" in same[0]:
        means = [mean(of) for of in zip(*matrices, strict=True)] if len(matrices) == len(same) else None
        same = [{**same[0], "by_state": means}, *same[1:]]
    return _mean_record(same[0], same, numbers) | ({"learned": all(asked)} if asked else {})


def _mean_cost(same: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The mean over seeds; None where it was not recorded for all of them."""
    costs = [one["cost"] for one in same if one.get("cost")]
    if not costs or len(costs) < len(same):
        return None
    return {name: None if None in (of := [c[name] for c in costs]) else mean(of) for name in COST_TITLES}


def _mean_record(record: Mapping[str, Any], same: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """`record` with the mean of each named value over `same`, and its standard deviation as `<name>_std`."""
    result = dict(record)
    for name in names:
        values = [one[name] for one in same if one.get(name) is not None]
        result[name] = mean(values) if values else None
        result[f"{name}_std"] = stdev(values) if len(values) > 1 else None
    return result
