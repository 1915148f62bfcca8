"""Whose folder it is: a run's, a grid's and a report's carry a mark of their own. No other folder is ever written over.

Those of earlier versions are known by what only scail writes, not by the names of their files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scail.storage.reading import opened_plain, read_json

RUN, GRID, REPORT = "config.json", "grid.json", "report.html"
"""The file that carries the mark."""
RUN_MARK, GRID_MARK = "scail run, format", "scail grid, format"
REPORT_MARK = '<meta name="generator" content="scail report">'
_FORMAT = 1
_RUN_BEFORE = {"experiment", "memory", "class_order", "state_sizes", "dataset"}
_GRID_BEFORE = {"grid", "command", "cells"}
_REPORT_BEFORE = "<title>scail: "
_HEAD, _MOST_PAGE = 4096, 2**40  # bytes of a page: of its beginning, and at most
_BEGUN = re.compile(r"\.(config|grid)\.json\.\d+")


def marked(mark: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with this mark first."""
    return {mark: _FORMAT, **record}


def is_run(folder: Path) -> bool:
    """Whether this is the folder of a run, of one seed or of several."""
    config = _record(folder / RUN)
    several = config.get("configurations") == "seed-*/" and isinstance(config.get("seeds"), list)
    one = config.keys() >= _RUN_BEFORE and isinstance(config["experiment"], dict)
    return RUN_MARK in config or several or one


def is_grid(folder: Path) -> bool:
    """Whether this is the folder of a grid."""
    record = _record(folder / GRID)
    return GRID_MARK in record or (record.keys() >= _GRID_BEFORE and isinstance(record["cells"], list))


def is_report(folder: Path) -> bool:
    """Whether this is the folder of a report."""
    try:
        with opened_plain(folder / REPORT, _MOST_PAGE) as (file, _):
            head = file.read(_HEAD).decode("utf-8", "replace")
    except (OSError, ValueError):
        return False
    return REPORT_MARK in head or _REPORT_BEFORE in head


def marks_of(folder: Path) -> set[str]:
    """Of these files, those that say that the folder is scail's."""
    known = {RUN: is_run, GRID: is_grid, REPORT: is_report}
    return {name for name, ours in known.items() if ours(folder)}


def is_begun(folder: Path, name: str) -> bool:
    """Whether this is what version 0.1 left in a folder where it was killed before it had written its mark."""
    place = folder / name
    empty = name == "confusion" and place.is_dir() and not any(place.iterdir())
    return empty or (bool(_BEGUN.fullmatch(name)) and place.is_file())


def _record(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return {}
