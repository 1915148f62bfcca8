"""What the page's figures are drawn from: a run's measurements, cut down to what fits into a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scail.evaluation import ERROR_KINDS
from scail.report.page_bulk import Room, confusion, exemplars
from scail.report.protocol import Comparison
from scail.report.runs import FinishedRun, by_trajectory
from scail.report.table import key_of
from scail.results.measures import COST_TITLES, MEASURES
from scail.results.row import Row

_MOST_RANKS = 64
"""Points of a curve of ranked weights."""
_FEW_RUNS = 6
"""With more runs than this in a page, ranked weights are of the last state only."""


def page_data(comparisons: Sequence[Comparison], thumbnails: bool = True) -> dict[str, Any]:
    """Everything that the page draws, as plain values; perhaps without small pictures of exemplars."""
    room = Room() if thumbnails else Room(pictures=0)
    runs = [run for one in comparisons for config in one.configurations for run in config.runs]
    return {
        "errorKinds": ERROR_KINDS,
        "measures": [
            {"name": name, "title": one.title, "meaning": one.meaning, "better": one.better}
            for name, one in MEASURES.items()
        ],
        "costs": [{"name": name, "title": title} for name, title in COST_TITLES.items()],
        "configurations": [
            {
                "title": f"{one.title}: {config.title}",
                "comparison": c,
                "column": config.title,
                "runs": [runs.index(run) for run in config.runs],
                "states": config.states,
                "memory": config.memory,
                "full": config.summary["full"],
                "own": sorted({name for run in config.runs for name in run.config.get("own", {})}),
                "records": [_record(record) for record in config.summary["methods"]],
            }
            for c, one in enumerate(comparisons)
            for config in one.configurations
        ],
        "runs": [_run(run, room, len(runs)) for run in runs],
    }


def _record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A method's numbers per state, of one seed or as means over seeds."""
    states = record["per_state"]
    found = {"key": key_of(record), "label": _label(record), "select": record["select"]}
    for name in ("top1", "top5", "top1_std", "top5_std"):
        if record.get(name) is not None:
            found[f"{name}_mean"] = _rounded(record[name])
        if states and states[0].get(name) is not None:
            found[name] = [_rounded(state[name]) for state in states]
    measures = {name: _rounded(record.get(name)) for name in MEASURES}
    spreads = {name: _rounded(record.get(f"{name}_std")) for name in MEASURES}
    found |= {"measures": measures, "spreads": spreads, "cost": record.get("cost")}
    return found | {"classes": [state["classes"] for state in states]}


def _label(record: Mapping[str, Any]) -> str:
    return f"{record['label']}{'' if record['in_paper'] else '*'}"


def _run(run: FinishedRun, room: Room, runs: int) -> dict[str, Any]:
    lines: dict[tuple[str, str | None], list[Row]] = {}
    for row in sorted(run.rows, key=lambda row: row.state):
        lines.setdefault((row.method, row.select), []).append(row)
    return {
        "title": f"seed {run.seed}",
        "seed": run.seed,
        "path": run.path.as_posix(),
        "sizes": run.config["state_sizes"],
        "classNames": run.config["class_order"],
        "memory": run.config["memory"],
        "missing": run.missing,
        "lines": [_line(rows) for rows in lines.values()],
        "weights": _weights(run, runs > _FEW_RUNS),
        "exemplars": exemplars(run, room),
        "confusion": confusion(run, list(lines), room),
        "timing": _timing(run),
    }


def _line(rows: Sequence[Row]) -> dict[str, Any]:
    """One method of a run, state by state."""
    first = rows[0]
    return {
        "key": f"{first.method}|{first.select or ''}",
        "method": first.method,
        "label": f"{first.label}{'' if first.in_paper else '*'}",
        "select": first.select,
        "trainer": first.trainer,
        "top1": [_rounded(row.top1) for row in rows],
        "top5": [_rounded(row.top5) for row in rows],
        "classes": [row.classes for row in rows],
        "errors": [[row.errors[kind] for kind in ERROR_KINDS] for row in rows],
        "origins": [row.past_errors_by_origin for row in rows],
        "scores": {name: [_rounded(row.scores[name]) for row in rows] for name in ("past", "new")},
    }


def _rounded(value: float | None) -> float | None:
    """Four digits are more than a figure shows."""
    return None if value is None else float(f"{value:.4g}")


def _weights(run: FinishedRun, last_only: bool) -> list[dict[str, Any]]:
    found = []
    for title, records in by_trajectory(run.weights).items():
        shown = [record for record in records if "past" in record["ranked"]]
        states = [_curves(record) for record in (shown[-1:] if last_only else shown)]
        if states:
            found.append({"title": title, "ranks": len(shown[0]["ranked"]["new"]), "states": states})
    return found


def _curves(record: Mapping[str, Any]) -> dict[str, Any]:
    at = sampled(len(record["ranked"]["new"]))
    curves = {name: [_rounded(values[i]) for i in at] for name, values in record["ranked"].items()}
    return {"state": record["state"], "at": [i + 1 for i in at], **curves}


def sampled(count: int, most: int = _MOST_RANKS) -> list[int]:
    """Evenly spread places of `count`, the first and the last among them.

    >>> sampled(5, most=3)
    [0, 2, 4]
    """
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _timing(run: FinishedRun) -> list[dict[str, Any]]:
    return [
        {
            "title": title,
            "epochs": [record["trained_epochs"] for record in records],
            "seconds": [_rounded(record["seconds"]) for record in records],
            "evaluation": [_rounded(record["evaluation"]) for record in records],
        }
        for title, records in by_trajectory(run.timing).items()
    ]
