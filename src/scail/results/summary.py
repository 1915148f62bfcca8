"""The table's numbers, from rows: means over states, gaps to Full, means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from scail.evaluation import gap_to_full, incremental_mean
from scail.results.row import ON_LEARNING, Row

AVERAGING = "mean over the incremental states 1..Z-1; state 0 excluded"


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """The table's numbers from the lines: one record per (method, selection, memory), and Full."""
    full = next(({"top1": r.top1, "top5": r.top5} for r in rows if r.method == "full"), None)
    records = [
        _record([row for row in rows if (row.method, row.select, row.memory) == key], full)
        for key in dict.fromkeys((row.method, row.select, row.memory) for row in rows if row.method != "full")
    ]
    last = max((r.state for r in rows if r.method != "full"), default=0)
    exemplars = max((r.exemplars for r in rows if r.state == last and r.method != "full"), default=0)
    trained = {(r.trainer, r.select, r.memory, r.state): r.trained_epochs for r in rows}
    return {
        "methods": records,
        "full": full,
        "trained_epochs": sum(trained.values()),
        "exemplars": exemplars,
        "averaging": AVERAGING,
    }


def _record(rows: Sequence[Row], full: Mapping[str, float] | None) -> dict[str, Any]:
    """One method's line of the table, from its rows in all states."""
    rows = sorted(rows, key=lambda row: row.state)
    record: dict[str, Any] = {
        name: getattr(rows[0], name) for name in ("method", "label", "in_paper", "select", "memory")
    }
    for name in ("top1", "top5"):
        accuracy = incremental_mean([getattr(row, name) for row in rows])
        record[name] = accuracy
        # Where Full is missing or perfect there is no gap to measure.
        record[f"gap_{name}"] = gap_to_full([accuracy], full[name]) if full and full[name] < 100 else None
    names = ("state", "classes", "top1", "top5", *ON_LEARNING)
    record["per_state"] = [{name: getattr(row, name) for name in names} for row in rows]
    return record


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
        together["methods"].append(_mean_record(same[0], same, ("top1", "top5", "gap_top1", "gap_top5")))
        states = zip(*(one["per_state"] for one in same), strict=True)
        together["methods"][-1]["per_state"] = [_mean_state(of) for of in states]
        if len(same) < len(summaries):  # a method that was not run with every seed
            together["methods"][-1]["seeds"] = len(same)
    fulls = [summary["full"] for summary in summaries.values() if summary["full"]]
    together["full"] = _mean_record({}, fulls, ("top1", "top5")) if fulls else None
    together["trained_epochs"] = sum(summary["trained_epochs"] for summary in summaries.values())
    together["exemplars"] = max(summary["exemplars"] for summary in summaries.values())
    return together


def _mean_state(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same state of several seeds. It was learned where all of them were."""
    asked = [one["learned"] for one in same if one.get("learned") is not None]
    numbers = [name for name in ("top1", "top5", *ON_LEARNING) if name != "learned" and name in same[0]]
    return _mean_record(same[0], same, numbers) | ({"learned": all(asked)} if asked else {})


def _mean_record(record: Mapping[str, Any], same: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """`record` with the mean of each named value over `same`, and its standard deviation as `<name>_std`."""
    result = dict(record)
    for name in names:
        values = [one[name] for one in same if one[name] is not None]
        result[name] = mean(values) if values else None
        result[f"{name}_std"] = stdev(values) if len(values) > 1 else None
    return result
