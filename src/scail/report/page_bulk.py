"""The bulky parts of a page, confusion matrices and thumbnails: as much of them as there is room for."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scail.report.runs import FinishedRun, by_trajectory
from scail.results.confusion_matrices import ConfusionMatrices
from scail.results.run_directory import confusion_file
from scail.storage.reading import read_bounded


@dataclass
class Room:
    """How much of a page's bulky parts still fits in, in bytes; what comes first gets the room."""

    matrices: int = 2_000_000
    """Confusion between classes."""
    blocks: int = 3_000_000
    """Confusion between the classes of states."""
    pictures: int = 2_500_000


def exemplars(run: FinishedRun, room: Room) -> list[dict[str, Any]]:
    """Per trajectory, exemplars of each class after each state, and thumbnails where they fit in; of generated images,
    too."""
    found = []
    for title, records in by_trajectory(run.memory).items():
        sheets, left_out = _sheets(run, records, "sheet", room)
        generated, not_shown = _sheets(run, records, "generated", room)
        entry = {"title": title, "kept": [record["kept"] for record in records], "leftOut": left_out or not_shown}
        entry |= {"sheets": sheets, "generated": generated}
        found.append(entry | {"recognised": {r["state"]: r["recognised"] for r in records if "recognised" in r}})
    return found


def _sheets(
    run: FinishedRun, records: Sequence[Mapping[str, Any]], name: str, room: Room
) -> tuple[dict[int, dict[str, Any]], bool]:
    """The pictures of each state, and whether there are some and no room for them."""
    files = {record["state"]: record[name] for record in records if record.get(name)}
    sheets = {state: _picture(run, sheet, room.pictures) for state, sheet in files.items()}
    size = sum(len(sheet["src"]) for sheet in sheets.values() if sheet)
    shown = bool(sheets) and size <= room.pictures
    room.pictures -= size if shown else 0
    return {s: sheet for s, sheet in sheets.items() if sheet} if shown else {}, bool(sheets) and not shown


def _picture(run: FinishedRun, sheet: Mapping[str, Any], room: int) -> dict[str, Any] | None:
    path = run.path / sheet["file"]
    kind = {".png": "png", ".jpg": "jpeg"}.get(path.suffix)
    try:
        if kind is None or not path.resolve().is_relative_to(run.path.resolve()):
            return None
        content = read_bounded(path, room)
    except (OSError, ValueError, RuntimeError):  # not there, too large, no name that a file can have, links in a circle
        return None
    return {**sheet, "src": f"data:image/{kind};base64,{base64.b64encode(content).decode()}"}


def confusion(run: FinishedRun, lines: Sequence[tuple[str, str | None]], room: Room) -> dict[str, Any]:
    """Per method, a matrix for each state: of classes while there is room, else of the states they came in."""
    first = [key for key in lines if key[0] in ("ft", "scail")]
    found = {}
    for method, select in [*first, *(key for key in lines if key not in first)]:
        path = confusion_file(run.path, method, select)
        if path.is_file() and (entry := _matrices(path, run.config["state_sizes"], room)):
            found[f"{method}|{select or ''}"] = entry
    return found


def _matrices(path: Path, sizes: Sequence[int], room: Room) -> dict[str, Any] | None:
    found = ConfusionMatrices(path, sizes)
    cells = sum(side**2 for side in found.sides.values())
    level = "classes" if 1.4 * cells <= room.matrices else "states"
    arrays = (found.of(state) if level == "classes" else in_blocks(found.of(state), sizes) for state in found.sides)
    encoded = [_encode(array) for array in arrays]
    size = sum(len(one["data"]) for one in encoded)
    if size > (room.matrices if level == "classes" else room.blocks):
        return None
    if level == "classes":
        room.matrices -= size
    else:
        room.blocks -= size
    return {"level": level, "states": encoded}


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
