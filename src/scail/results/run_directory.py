"""A run's results on disk: one JSON line per (method, selection, state), and the summary that follows from them.

A run directory holds `config.json` (the whole configuration), `results.jsonl` (the lines), `weights.jsonl` (ranked
weights of each trajectory), `memory.jsonl` and `exemplars/` (how many exemplars each class has, and thumbnails),
`timing.jsonl`, `confusion/` (a matrix per state), `summary.json`, `table.md`, `figures/` and `report.html`.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from scail.evaluation import gap_to_full, incremental_mean
from scail.storage.atomic import sweep, write_text
from scail.storage.lock import LOCK, claim, locked

_BY_TRAJECTORY = ("weights.jsonl", "memory.jsonl", "timing.jsonl")
"""Files with a line per state of a trajectory."""
AVERAGING = "mean over the incremental states 1..Z-1; state 0 excluded"


@dataclass(frozen=True)
class Row:
    """What was measured of one method in one state."""

    method: str
    label: str
    in_paper: bool
    select: str | None
    memory: int
    exemplars: int
    """Images in memory after the state."""
    trainer: str
    """Rows of one trainer, selection and memory come from one trajectory."""
    state: int
    classes: int
    """Classes seen."""
    top1: float
    top5: float
    test_images: int
    errors: dict[str, int]
    past_errors_by_origin: list[int]
    scores: dict[str, float | None]
    """Mean score of the true class, for test images of past and of new classes."""
    seed: int
    trained_epochs: int
    """Epochs trained for the state in this run; 0: it came from the store."""
    provenance: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sheet:
    """A picture of `rows` x `columns` square thumbnails: exemplars of a class in each row, best first."""

    data: bytes
    kind: str
    """png (grey images) or jpg (colour)."""
    rows: int
    columns: int
    side: int


class RunDirectory:
    """Where the results of one run are written, as they arrive."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._held = ExitStack()

    def begin(self, config: Mapping[str, Any]) -> None:
        """Start afresh here, alone. A directory that holds anything but a run is left alone: that is an error."""
        named = f"--out {self.path}"
        taken = ValueError(f"{named}: another run is writing there; wait, or give another directory")
        try:
            claim(self.path, named, {"config.json"}, "holds files that are not a scail run; give a new directory")
            self._held.enter_context(locked(self.path / LOCK, taken))
            sweep(self.path)
            for old in [*self.path.glob("seed-*/config.json")]:
                shutil.rmtree(old.parent)
            for name in ("confusion", "exemplars", "figures", "tables", *(() if self._goes_on(config) else ("logs",))):
                shutil.rmtree(self.path / name, ignore_errors=True)
            for name in ("summary.json", "table.md", "report.html"):
                (self.path / name).unlink(missing_ok=True)
            (self.path / "confusion").mkdir()
            write_text(self.path / "config.json", json.dumps(config, indent=1, ensure_ascii=False) + "\n")
            for name in ("results.jsonl", *_BY_TRAJECTORY):
                write_text(self.path / name, "")
        except OSError as error:
            raise ValueError(f"{named}: cannot write there: {error.strerror or error}") from error

    def _goes_on(self, config: Mapping[str, Any]) -> bool:
        """Whether this very run was begun here before: then what was sent to a logger is still its beginning."""
        try:
            before = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        now = json.loads(json.dumps(config))
        return all(before.get(name) == now.get(name) for name in ("experiment", "seeds", "class_order", "dataset"))

    def end(self) -> None:
        """Let others write here."""
        self._held.close()

    def add(
        self, rows: Sequence[Row], weights: Mapping[str, Any] | None, confusion: Mapping[str, np.ndarray[Any, Any]]
    ) -> None:
        """What one state of a trajectory gave: lines, ranked weights, and each method's confusion matrix."""
        _append(self.path / "results.jsonl", (asdict(row) for row in rows))
        if weights:
            _append(self.path / "weights.jsonl", [weights])
        for row in rows:
            name = f"{row.method}-{row.select}" if row.select else row.method
            # An .npz is a zip: each state is appended. With a thousand classes they cannot all be kept in memory.
            path = self.path / "confusion" / f"{name}.npz"
            with (
                zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
                archive.open(f"state_{row.state}.npy", "w", force_zip64=True) as file,
            ):
                np.lib.format.write_array(file, confusion[row.method])

    def add_memory(self, memory: Mapping[str, Any], sheet: Sheet | None) -> None:
        """How many exemplars each class has after a state, and thumbnails of those that are new."""
        record = dict(memory)
        if sheet is not None:
            folder = self.path / "exemplars" / f"{memory['trainer']}-{memory['select']}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"state_{memory['state']}.{sheet.kind}"
            path.write_bytes(sheet.data)
            shape = {"rows": sheet.rows, "columns": sheet.columns, "side": sheet.side}
            record["sheet"] = {"file": path.relative_to(self.path).as_posix(), **shape}
        _append(self.path / "memory.jsonl", [record])

    def add_timing(self, timing: Mapping[str, Any]) -> None:
        """How long a state took, to learn (or to fetch from the store) and to measure."""
        _append(self.path / "timing.jsonl", [timing])

    def sort(self, methods: Sequence[tuple[str, str | None]]) -> None:
        """Bring the lines into one order, whichever trajectory was done first: (method, selection), then state."""
        rows = sorted(self.rows(), key=lambda row: (methods.index((row.method, row.select)), row.state))
        write_text(self.path / "results.jsonl", _lines(asdict(row) for row in rows))
        for name in _BY_TRAJECTORY:
            records = sorted(read_lines(self.path / name), key=lambda r: (r["trainer"], r["select"] or "", r["state"]))
            write_text(self.path / name, _lines(records))

    def rows(self) -> list[Row]:
        """Read the lines back."""
        return [Row(**record) for record in read_lines(self.path / "results.jsonl")]


def _lines(records: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)


def _append(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(_lines(records))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON-lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
    record["per_state"] = [{"state": r.state, "classes": r.classes, "top1": r.top1, "top5": r.top5} for r in rows]
    return record


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
        together["methods"][-1]["per_state"] = [_mean_record(of[0], of, ("top1", "top5")) for of in states]
        if len(same) < len(summaries):  # a method that was not run with every seed
            together["methods"][-1]["seeds"] = len(same)
    fulls = [summary["full"] for summary in summaries.values() if summary["full"]]
    together["full"] = _mean_record({}, fulls, ("top1", "top5")) if fulls else None
    together["trained_epochs"] = sum(summary["trained_epochs"] for summary in summaries.values())
    together["exemplars"] = max(summary["exemplars"] for summary in summaries.values())
    return together


def _mean_record(record: Mapping[str, Any], same: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """`record` with the mean of each named value over `same`, and its standard deviation as `<name>_std`."""
    result = dict(record)
    for name in names:
        values = [one[name] for one in same if one[name] is not None]
        result[name] = mean(values) if values else None
        result[f"{name}_std"] = stdev(values) if len(values) > 1 else None
    return result
