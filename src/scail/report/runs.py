"""What a finished run left on disk, read back for a report; what an older version did not write is named."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scail.report.paper import find_runs
from scail.results.row import Row
from scail.results.run_record import read_config, read_of_trajectories, read_rows, read_summary

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
    try:
        config = read_config(path)
        states = len(config["state_sizes"])
        summary, rows = read_summary(path, states), read_rows(path, states)
        titles = {(line["trainer"], line["select"]): line["title"] for line in config.get("lines", ())}
        weights, memory, timing = (
            read_of_trajectories(path, name, titles) for name in ("weights.jsonl", "memory.jsonl", "timing.jsonl")
        )
    except ValueError as error:
        raise ValueError(f"{error}; run it again, or leave this run out") from error
    except OSError as error:
        raise ValueError(f"{error.filename}: cannot be read: {error.strerror or error}") from error
    missing = tuple(text for name, text in _OPTIONAL.items() if not (path / name).exists())
    return FinishedRun(path, config, summary, rows, weights, memory, timing, missing)


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
