"""What a finished run left on disk, read back for a report; what an older version did not write is named."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scail.report.paper import find_runs
from scail.results.row import Row
from scail.results.run_directory import RunDirectory, read_lines

_OPTIONAL = {
    "weights.jsonl": "ranked weights",
    "memory.jsonl": "exemplars per class",
    "timing.jsonl": "time of each state",
    "confusion": "confusion matrices",
}


@dataclass(frozen=True)
class FinishedRun:
    """A run directory's content."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]
    weights: list[dict[str, Any]]
    memory: list[dict[str, Any]]
    timing: list[dict[str, Any]]
    missing: tuple[str, ...]
    """What the directory does not hold."""

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["experiment"]["seed"])

    @property
    def command(self) -> str | None:
        """The command line that makes it again; None where it was started from Python."""
        program, *arguments = self.config.get("command") or [""]
        if Path(program).name not in ("scail", "__main__.py", "scail.exe"):
            return None
        return shlex.join(["scail", *arguments])


def read_runs(places: Iterable[Path]) -> list[FinishedRun]:
    """Every finished run at or below these places, each once."""
    found = {path.resolve(): path for path in find_runs(places)}
    return [read_report_run(path) for path in found.values()]


def read_report_run(path: Path) -> FinishedRun:
    """One run directory; a file that is damaged is an error that names it."""

    def load(name: str, read: Callable[[Path], Any]) -> Any:
        try:
            return read(path / name)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path / name}: damaged ({error}); run it again, or leave this run out") from error
        except OSError as error:
            raise ValueError(f"{path / name}: cannot be read: {error.strerror or error}") from error

    def lines(name: str) -> Any:
        return load(name, lambda at: _of_trajectories(at, titles)) if (path / name).is_file() else []

    config, summary = (load(name, _json) for name in ("config.json", "summary.json"))
    for name, record, needed in (
        ("config.json", config, ("experiment", "memory", "class_order", "state_sizes", "dataset")),
        ("summary.json", summary, ("methods", "full", "averaging")),
    ):
        absent = [key for key in needed if key not in record]
        if absent:
            raise ValueError(f"{path / name}: has no {absent[0]}; expected a folder of `scail run`")
    titles = {(line["trainer"], line["select"]): line["title"] for line in config.get("lines", ())}
    rows = load("results.jsonl", lambda _: RunDirectory(path).rows())
    missing = tuple(text for name, text in _OPTIONAL.items() if not (path / name).exists())
    return FinishedRun(
        path, config, summary, rows, lines("weights.jsonl"), lines("memory.jsonl"), lines("timing.jsonl"), missing
    )


def _of_trajectories(path: Path, titles: Mapping[tuple[str, str | None], str]) -> list[dict[str, Any]]:
    """Lines that say of which state of which trajectory they are, with its title as the run knows it."""
    records = read_lines(path)
    for record in records:
        if absent := [key for key in ("trainer", "select", "state") if key not in record]:
            raise ValueError(f"a line without {absent[0]}")
        if not (record["select"] is None or re.fullmatch(r"\w+", str(record["select"]))):
            raise ValueError(f"select {record['select']!r}")
        record["title"] = titles.get((record["trainer"], record["select"]), record["trainer"])
    return records


def _json(path: Path) -> dict[str, Any]:
    record = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def by_trajectory(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Records by the title of their trajectory; fine tuning first, since most methods are read from it."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    selects = {"herding": 0, "random": 1, None: 3}
    for record in sorted(
        records,
        key=lambda r: (
            r["trainer"] != "fine_tune",
            selects.get(r["select"], 2),
            str(r["select"]),
            r["trainer"],
            r["state"],
        ),
    ):
        found.setdefault(record["title"], []).append(record)
    return found
