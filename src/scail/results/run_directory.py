"""A run's results on disk: one JSON line per (method, selection, state), and what belongs to them.

A run directory holds `config.json` (the whole configuration), `results.jsonl` (the lines), `classes.jsonl` (test images
of each class, and how many are right), `weights.jsonl` (ranked weights of each trajectory), `memory.jsonl` and
`exemplars/` (how many exemplars each class has, and thumbnails), `generated/` (thumbnails of generated images),
`timing.jsonl`, `confusion/` (a matrix per state), `summary.json`, `table.md`, `figures/` and `report.html`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scail.config.former import FORMER_METHODS
from scail.results.marks import RUN, RUN_MARK, is_begun, is_run, marked
from scail.results.own_files import LINES, check_links, clear
from scail.results.row import Row, row_from
from scail.storage.atomic import named, sweep, told, write_text
from scail.storage.flushing import Flushed, flush
from scail.storage.lock import LOCK, claim, locked
from scail.storage.reading import read_json, read_json_lines

_BY_TRAJECTORY = ("weights.jsonl", "memory.jsonl", "timing.jsonl")
"""Files with a line per state of a trajectory."""


@dataclass(frozen=True)
class Sheet:
    """A picture of `rows` x `columns` square thumbnails: exemplars of a class in each row, best first."""

    data: bytes
    kind: str
    """png (grey images) or jpg (colour)."""
    rows: int
    columns: int
    side: int
    real: int = 0
    """Of generated images: so many columns show real ones, the first ones."""


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
            mark = {RUN} if is_run(self.path) else set()
            foreign = "holds files that are not a scail run; give a new directory"
            claim(self.path, named, mark, foreign, own=partial(is_begun, self.path))
            check_links(self.path, named)
            self._held.enter_context(locked(self.path / LOCK, taken))
            sweep(self.path)
            clear(self.path, logs=not self._goes_on(config))
            for name in LINES:
                (self.path / name).unlink(missing_ok=True)
            flush(self.path)  # nothing of the run before is beside the new configuration, and says that it is finished
            text = json.dumps(marked(RUN_MARK, config), indent=1, ensure_ascii=False) + "\n"
            write_text(self.path / RUN, text)  # the mark comes first: what stands beside it is ours
            (self.path / "confusion").mkdir(exist_ok=True)
            for name in LINES:
                write_text(self.path / name, "", Flushed.NOTHING)
        except OSError as error:
            raise ValueError(f"{named}: cannot write there: {told(error)}") from error

    def _goes_on(self, config: Mapping[str, Any]) -> bool:
        """Whether this very run was begun here before: then what was sent to a logger is still its beginning."""
        try:
            before = read_json(self.path / RUN)
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
        _append(self.path / "classes.jsonl", (_by_class(row, confusion[row.method]) for row in rows))
        for row in rows:
            # An .npz is a zip: each state is appended. With a thousand classes they cannot all be kept in memory.
            path = _confusion(self.path, row.method, row.select)
            with (
                named(path),
                zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
                archive.open(f"state_{row.state}.npy", "w", force_zip64=True) as file,
            ):
                np.lib.format.write_array(file, confusion[row.method])

    def add_memory(self, memory: Mapping[str, Any], sheet: Sheet | None, generated: Sheet | None = None) -> None:
        """How many exemplars each class has after a state; thumbnails of those that are new, and of generated ones."""
        record = dict(memory)
        for name, folder, one in (("sheet", "exemplars", sheet), ("generated", "generated", generated)):
            if one is not None:
                record[name] = self._written(one, f"{folder}/{memory['trainer']}-{memory['select']}", memory["state"])
        _append(self.path / "memory.jsonl", [record])

    def _written(self, sheet: Sheet, folder: str, state: int) -> dict[str, Any]:
        """Where the picture is, and what is on it."""
        file = f"{folder}/state_{state}.{sheet.kind}"
        with named(self.path / file):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
            (self.path / file).write_bytes(sheet.data)
        shape = {"rows": sheet.rows, "columns": sheet.columns, "side": sheet.side}
        return {"file": file, **shape} | ({"real": sheet.real} if sheet.real else {})

    def add_timing(self, timing: Mapping[str, Any]) -> None:
        """How long a state took, to learn (or to fetch from the store) and to measure."""
        _append(self.path / "timing.jsonl", [timing])

    def sort(self, methods: Sequence[tuple[str, str | None]]) -> None:
        """Bring the lines into one order, whichever trajectory was done first: (method, selection), then state."""
        rows = sorted(self.rows(), key=lambda row: (methods.index((row.method, row.select)), row.state))
        write_text(self.path / "results.jsonl", _lines(asdict(row) for row in rows))
        classes = read_lines(self.path / "classes.jsonl")
        classes.sort(key=lambda one: (methods.index((one["method"], one["select"])), one["state"]))
        write_text(self.path / "classes.jsonl", _lines(classes))
        for name in _BY_TRAJECTORY:
            records = sorted(read_lines(self.path / name), key=lambda r: (r["trainer"], r["select"] or "", r["state"]))
            write_text(self.path / name, _lines(records))

    def timing(self) -> list[dict[str, Any]]:
        """The times that were written, read back."""
        return read_lines(self.path / "timing.jsonl")

    def rows(self) -> list[Row]:
        """Read the lines back."""
        return [row_from(record) for record in read_lines(self.path / "results.jsonl")]


def _by_class(row: Row, matrix: np.ndarray[Any, Any]) -> dict[str, Any]:
    """How many test images of each class there are, in order of arrival, and how many are right."""
    found = {"method": row.method, "select": row.select, "memory": row.memory, "state": row.state}
    return found | {"correct": matrix.diagonal().tolist(), "images": matrix.sum(1).tolist()}


def confusion_file(run: Path, method: str, select: str | None) -> Path:
    """The confusion matrices of a method, perhaps under a name of version 0.1."""
    names = [method, *(former for former, name in FORMER_METHODS.items() if name == method)]
    paths = [_confusion(run, name, select) for name in names]
    return next((path for path in paths if path.exists()), paths[0])


def _confusion(run: Path, method: str, select: str | None) -> Path:
    return run / "confusion" / f"{f'{method}-{select}' if select else method}.npz"


def _lines(records: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)


def _append(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with named(path), path.open("a", encoding="utf-8") as file:
        file.write(_lines(records))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON-lines file."""
    return read_json_lines(path)
