"""What the page's figures are drawn from: a run's measurements, cut down to what fits into a page."""

from __future__ import annotations

import base64
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scail.evaluation import ERROR_KINDS
from scail.report.protocol import Comparison
from scail.report.runs import Run
from scail.report.table import key_of
from scail.results import Row

_MOST_RANKS = 64
"""Points of a curve of ranked weights."""
_FEW_RUNS = 6
"""With more runs than this in a page, ranked weights are of the last state only."""
_TRAINERS = {
    "fine_tune": "FT", "balanced": "FT^BAL", "e2e": "E2E", "distill": "distillation", "bic": "BiC",
    "frozen_svm": "DeeSIL", "joint": "Full",
}  # fmt: skip


@dataclass
class Room:
    """How much of a page's bulky parts still fits in, in bytes; what comes first gets the room."""

    matrices: int = 2_000_000
    """Confusion between classes."""
    blocks: int = 3_000_000
    """Confusion between the classes of states."""
    pictures: int = 2_500_000


def page_data(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Everything that the page draws, as plain values."""
    room = Room()
    runs = [run for one in comparisons for config in one.configurations for run in config.runs]
    return {
        "errorKinds": ERROR_KINDS,
        "configurations": [
            {
                "title": f"{one.title}: {config.title}",
                "comparison": c,
                "column": config.title,
                "runs": [runs.index(run) for run in config.runs],
                "states": config.states,
                "memory": config.memory,
                "full": config.summary["full"],
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
    return found | {"classes": [state["classes"] for state in states]}


def _label(record: Mapping[str, Any]) -> str:
    return f"{record['label']}{'' if record['in_paper'] else '*'}"


def _run(run: Run, room: Room, runs: int) -> dict[str, Any]:
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
        "exemplars": _exemplars(run, room),
        "confusion": _confusion(run, lines, room),
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


def trajectory_title(record: Mapping[str, Any]) -> str:
    """The trainer and its exemplars, as a reader knows them."""
    name = str(_TRAINERS.get(record["trainer"], record["trainer"]))
    if record["trainer"] == "joint":
        return name
    return f"{name}, {record['select']} exemplars" if record["select"] else f"{name}, no memory"


def by_trajectory(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Records by the trajectory that they are of; fine tuning first, since most methods are read from it."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    selects = ("herding", "random", None)
    for record in sorted(
        records, key=lambda r: (r["trainer"] != "fine_tune", selects.index(r["select"]), r["trainer"], r["state"])
    ):
        found.setdefault(trajectory_title(record), []).append(record)
    return found


def _weights(run: Run, last_only: bool) -> list[dict[str, Any]]:
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


def _exemplars(run: Run, room: Room) -> list[dict[str, Any]]:
    found = []
    for title, records in by_trajectory(run.memory).items():
        files = {record["state"]: record["sheet"] for record in records if record.get("sheet")}
        sheets = {state: _picture(run, sheet) for state, sheet in files.items()}
        size = sum(len(sheet["src"]) for sheet in sheets.values() if sheet)
        shown = bool(sheets) and size <= room.pictures
        room.pictures -= size if shown else 0
        entry = {"title": title, "kept": [record["kept"] for record in records], "leftOut": bool(sheets) and not shown}
        found.append(entry | {"sheets": {s: sheet for s, sheet in sheets.items() if sheet} if shown else {}})
    return found


def _picture(run: Run, sheet: Mapping[str, Any]) -> dict[str, Any] | None:
    path = run.path / sheet["file"]
    if not path.is_file() or not path.resolve().is_relative_to(run.path.resolve()):
        return None
    kind = {"png": "png", "jpg": "jpeg"}[path.suffix[1:]]
    return {**sheet, "src": f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"}


def _timing(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "title": title,
            "epochs": [record["trained_epochs"] for record in records],
            "seconds": [_rounded(record["seconds"]) for record in records],
            "evaluation": [_rounded(record["evaluation"]) for record in records],
        }
        for title, records in by_trajectory(run.timing).items()
    ]


def _confusion(run: Run, lines: Mapping[tuple[str, str | None], Sequence[Row]], room: Room) -> dict[str, Any]:
    """Per method, a matrix for each state: of classes while there is room, else of the states they came in."""
    first = [key for key in lines if key[0] in ("ft", "scail")]
    found = {}
    for method, select in [*first, *(key for key in lines if key not in first)]:
        path = run.path / "confusion" / f"{f'{method}-{select}' if select else method}.npz"
        if path.is_file() and (entry := _matrices(path, run.config["state_sizes"], room)):
            found[f"{method}|{select or ''}"] = entry
    return found


def _matrices(path: Any, sizes: Sequence[int], room: Room) -> dict[str, Any] | None:
    try:
        with np.load(path) as archive:
            names = sorted(archive.files, key=lambda name: int(name.removeprefix("state_")))
            cells = sum(_side(archive, name) ** 2 for name in names)
            level = "classes" if 1.4 * cells <= room.matrices else "states"
            arrays = [archive[name] if level == "classes" else in_blocks(archive[name], sizes) for name in names]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: damaged ({error}); run it again, or leave this run out") from error
    encoded = [_encode(array) for array in arrays]
    size = sum(len(one["data"]) for one in encoded)
    if size > (room.matrices if level == "classes" else room.blocks):
        return None
    if level == "classes":
        room.matrices -= size
    else:
        room.blocks -= size
    return {"level": level, "states": encoded}


def _side(archive: Any, name: str) -> int:
    """A matrix's side from the header alone: a thousand classes and fifty states need not all be read."""
    with archive.zip.open(f"{name}.npy") as file:
        np.lib.format.read_magic(file)
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
    return int(shape[0])


def in_blocks(matrix: NDArray[Any], sizes: Sequence[int]) -> NDArray[Any]:
    """Counts between classes added up by the states in which the classes were new.

    >>> in_blocks(np.array([[5, 1, 0], [2, 3, 1], [0, 0, 4]]), [2, 1]).tolist()
    [[11, 1], [0, 4]]
    """
    starts = [start for start in np.cumsum([0, *sizes])[:-1] if start < len(matrix)]
    blocks: NDArray[Any] = np.add.reduceat(np.add.reduceat(matrix, starts, axis=0), starts, axis=1)
    return blocks


def _encode(matrix: NDArray[Any]) -> dict[str, Any]:
    """The counts in as few bytes as they need, little-endian."""
    most = int(matrix.max(initial=0))
    bits = 8 if most < 2**8 else 16 if most < 2**16 else 32
    data = matrix.astype(f"<u{bits // 8}").tobytes()
    return {"side": len(matrix), "bits": bits, "data": base64.b64encode(data).decode()}
