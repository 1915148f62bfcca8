"""What a file of kept numbers says, checked value by value as it is read: it may come from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypedDict

from scail.results.row import Row, row_from
from scail.results.run_record import check, check_row
from scail.storage.reading import MIB, MOST_LINES, opened_plain, parsed, read_json_lines
from scail.storage.records import decode

EACH = "states"
"""The name of what differs from state to state."""
_MOST_FIRST = 16 * MIB  # bytes of the first line: it may name a hundred thousand classes
_MOST_STATES = 100_000  # of Full, which may be lent from a run of other states
_NAMES = {field.name for field in fields(Row)}


class _KeptData(TypedDict):
    name: str
    fingerprint: str
    train_images: int
    test_images: int
    split: str


class _KeptExperiment(TypedDict):
    seed: int
    network: str


class _Configuration(TypedDict):
    key: str
    memory: int
    state_sizes: list[int]
    class_order: list[str]
    dataset: _KeptData
    experiment: _KeptExperiment


class _ConfigurationRecord(_Configuration, total=False):
    memory_per_class: int


class _Schedule(TypedDict):
    epochs: int
    lr: float
    batch_size: int
    decay: str
    divide_by_state: bool


class _Provenance(TypedDict):
    scail: str
    torch: str
    python: str
    device: str
    threads: int


class _MadePart(TypedDict):
    schedules: dict[str, _Schedule]
    provenance: _Provenance
    commit: str | None
    started: str
    command: str
    seconds: float


class _MadeRecord(_MadePart, total=False):
    own: dict[str, str]
    used: dict[str, list[str]]


def read_configuration(path: Path) -> dict[str, Any]:
    """The first line of a file of kept numbers; no more of it is read."""
    try:
        return _configuration(path, first_record(path))
    except ValueError as error:
        said = str(error).removeprefix(f"{path}: ")
        raise ValueError(
            f"{path}: not a file of results; expected a configuration in its first line ({said})"
        ) from None


def first_record(path: Path) -> dict[str, Any]:
    """What stands in the first line of a file of JSON lines."""
    with opened_plain(path, MOST_LINES) as (file, _):
        record = parsed(file.readline(_MOST_FIRST))
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def _configuration(path: Path, record: Any) -> dict[str, Any]:
    found: dict[str, Any] = decode(_ConfigurationRecord, record, str(path))
    sizes, data = found["state_sizes"], found["dataset"]
    check(path, sizes and min(sizes) > 0 and sum(sizes) == len(found["class_order"]), "state_sizes")
    check(path, data["train_images"] > 0 and data["test_images"] > 0, "dataset")
    check(path, found["memory"] >= 0 and found["experiment"]["seed"] >= 0, "memory or seed")
    return found


def read_parts(path: Path) -> tuple[dict[str, Any], list[tuple[dict[str, Any], list[Row]]]]:
    """The configuration, and for each run that added to it how it was made, and its rows."""
    records = read_json_lines(path)
    configuration = _configuration(path, records[0] if records else None)
    common = {"seed": configuration["experiment"]["seed"]}
    parts = list[tuple[dict[str, Any], list[Row]]]()
    for number, record in enumerate(records[1:], 2):
        place = f"{path}, line {number}"
        if "made" in record:
            parts.append((decode(_MadeRecord, record["made"], f"{place}: made"), []))
            continue
        check(place, parts, "rows before what made them")
        made, rows = parts[-1]
        rows += _rows(place, record, {**common, "provenance": made["provenance"]})
    for _, rows in parts:
        _check_states(path, rows, len(configuration["state_sizes"]))
    return configuration, parts


def _rows(place: str, record: Mapping[str, Any], more: Mapping[str, Any]) -> Iterable[Row]:
    for values in _unfolded(place, record):
        try:
            row = row_from({**{name: value for name, value in values.items() if name in _NAMES}, **more})
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        check_row(place, row, _MOST_STATES)
        yield row


def _unfolded(place: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One record for each state; of version 0.1, which wrote them so, the record itself."""
    if EACH not in record:
        return [dict(record)]
    common = {name: value for name, value in record.items() if name != EACH}
    each = decode(dict[str, list[Any]], record[EACH], f"{place}: {EACH}")
    check(place, len({len(of) for of in each.values()}) == 1, EACH)
    return [{**common, **dict(zip(each, values, strict=True))} for values in zip(*each.values(), strict=True)]


def _check_states(path: Path, rows: Iterable[Row], states: int) -> None:
    """A run is kept when it is finished: each method has every state, but Full, which has one."""
    found: dict[tuple[str, str | None, int], list[int]] = {}
    for row in rows:
        found.setdefault((row.method, row.select, row.memory), []).append(row.state)
    for (method, *_), of in found.items():
        check(path, method == "full" or (sorted(of) == [*range(states)] and states > 1), f"states of {method}")
