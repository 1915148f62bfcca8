"""What a run's folder says, checked value by value as it is read: it may come from anywhere.

The types say what every version has written; what they do not name stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from scail.config import schedules_in
from scail.evaluation import ERROR_KINDS
from scail.results.marks import GRID, RUN
from scail.results.measures import COST_TITLES, MEASURES
from scail.results.row import COSTS, ON_LEARNING, Row, row_from
from scail.storage.reading import read_json, read_json_lines
from scail.storage.records import decode

_NAME = re.compile(r"[\w.+-]{1,200}")
_LINE_FILES = ("weights.jsonl", "memory.jsonl", "timing.jsonl")


class _Data(TypedDict):
    name: str
    fingerprint: str
    shape: list[int]
    train_images: int
    test_images: int


class _DataRecord(_Data, total=False):
    split: str
    on_disk: bool
    notes: list[str]


class _NetworkRecord(TypedDict):
    feature_size: int
    parameters: int


class _Experiment(TypedDict):
    seed: int
    class_order: str | list[str]
    network: str


class _ExperimentRecord(_Experiment, total=False):
    recipe: str
    split: str


class _TrajectoryRecord(TypedDict):
    title: str
    trainer: str
    select: str | None


class _Config(TypedDict):
    experiment: _ExperimentRecord
    memory: int
    class_order: list[str]
    state_sizes: list[int]
    dataset: _DataRecord


class _ConfigRecord(_Config, total=False):
    memory_per_class: int
    network: _NetworkRecord
    own: dict[str, str]
    lines: list[_TrajectoryRecord]
    provenance: dict[str, Any]
    command: list[str]
    started: str


class _State(TypedDict):
    state: int
    classes: int
    top1: float
    top5: float


class _StateRecord(_State, total=False):
    learned: bool | None
    by_state: list[float] | None


class _Method(TypedDict):
    method: str
    label: str
    in_paper: bool
    select: str | None
    memory: int
    top1: float
    top5: float
    gap_top1: float | None
    gap_top5: float | None
    per_state: list[_StateRecord]


class _MethodRecord(_Method, total=False):
    cost: dict[str, float | None] | None


class _Full(TypedDict):
    top1: float
    top5: float


class _FullRecord(_Full, total=False):
    cost: dict[str, float | None] | None


class _Summary(TypedDict):
    methods: list[_MethodRecord]
    full: _FullRecord | None
    averaging: str
    exemplars: int


class _SummaryRecord(_Summary, total=False):
    trained_epochs: int
    seconds: float
    seeds: list[int]


class _Place(TypedDict):
    folder: str


class _Folders(TypedDict):
    cells: list[_Place]


class _Cell(_Place):
    dataset: str
    configuration: str
    seed: int


class _Grid(TypedDict):
    cells: list[_Cell]


class _Line(TypedDict):
    trainer: str
    select: str | None
    state: int


class _WeightsRecord(_Line):
    ranked: dict[str, list[float]]


class _SheetPart(TypedDict):
    file: str
    rows: int
    columns: int
    side: int


class _Sheet(_SheetPart, total=False):
    real: int


class _Kept(_Line):
    kept: list[list[int]]


class _MemoryRecord(_Kept, total=False):
    sheet: _Sheet
    generated: _Sheet
    recognised: list[float]


class _TimingRecord(_Line):
    trained_epochs: int
    seconds: float
    evaluation: float


def read_config(run: Path) -> dict[str, Any]:
    """`config.json` of a run."""
    place = run / RUN
    config: dict[str, Any] = decode(_ConfigRecord, read_json(place), str(place))
    check(place, all(isinstance(of, dict) for of in schedules_in(config["experiment"]).values()), "schedules")
    sizes, data = config["state_sizes"], config["dataset"]
    check(place, sizes and min(sizes) > 0 and sum(sizes) == len(config["class_order"]), "state_sizes")
    check(place, len(set(config["class_order"])) == len(config["class_order"]), "class_order")
    check(place, data["train_images"] > 0 and data["test_images"] > 0 and data["shape"], "dataset")
    check(place, config["memory"] >= 0 and config["experiment"]["seed"] >= 0, "memory or seed")
    return config


def read_folders(grid: Path) -> list[str]:
    """The folders of a grid's configurations, as `grid.json` names them."""
    record = _grid_record(grid, _Folders)
    return [cell["folder"] for cell in record["cells"]]


def read_cells(grid: Path) -> list[dict[str, Any]]:
    """The configurations of a grid, each with its folder and its place in the table."""
    cells: list[dict[str, Any]] = _grid_record(grid, _Grid)["cells"]
    return cells


def _grid_record(grid: Path, kind: Any) -> dict[str, Any]:
    place = grid / GRID
    record: dict[str, Any] = decode(kind, read_json(place), str(place))
    for cell in record["cells"]:
        check(place, _NAME.fullmatch(cell["folder"]) and cell["folder"].strip("."), f"folder {cell['folder']!r:.60}")
    return record


def read_summary(run: Path, states: int | None = None) -> dict[str, Any]:
    """`summary.json` of a run with so many states; None: whatever their number."""
    place = run / "summary.json"
    summary: dict[str, Any] = decode(_SummaryRecord, read_json(place), str(place))
    for record in summary["methods"]:
        _check_names(place, record)
        count = len(record["per_state"])
        check(place, record["label"] and count and states in (None, count), "per_state")
        check(place, all(map(_is_accuracy, (record, *record["per_state"]))), "accuracies")
        for n, of in enumerate(record["per_state"]):
            check(place, of["state"] == n and of["classes"] > 0, "per_state")
            check(place, of.get("by_state") is None or len(of["by_state"]) == n + 1, "by_state")
            _check_numbers(place, of)
        _check_numbers(place, record)
        _check_cost(place, record.get("cost"))
    if summary["full"] is not None:
        check(place, _is_accuracy(summary["full"]), "full")
        _check_cost(place, summary["full"].get("cost"))
    return summary


def _check_numbers(place: Path, record: Mapping[str, Any]) -> None:
    for name, value in record.items():
        if name in MEASURES or name.endswith("_std") or (name in ON_LEARNING and name != "learned"):
            decode(float | None, value, f"{place}: {name}")


def _check_cost(place: Path, cost: Mapping[str, float | None] | None) -> None:
    """Of what was counted all is there; seconds may not be known."""
    check(place, not cost or (cost.keys() >= COST_TITLES.keys() and all(cost[n] is not None for n in COSTS)), "cost")


def _is_accuracy(record: Mapping[str, float]) -> bool:
    return all(0 <= record[name] <= 100 for name in ("top1", "top5"))


def read_rows(run: Path, states: int) -> list[Row]:
    """`results.jsonl` of a run with so many states."""
    place, found = run / "results.jsonl", list[Row]()
    for number, record in enumerate(read_json_lines(place), 1):
        try:
            row = row_from(record)
        except ValueError as error:
            raise ValueError(f"{place}, line {number}: {error}") from None
        check_row(f"{place}, line {number}", row, states)
        found.append(row)
    check(place, found, "no rows")
    return found


def check_row(place: str, row: Row, states: int) -> None:
    """An error if this is no row of a run with so many states."""
    _check_names(place, vars(row))
    check(place, 0 <= row.state < states and row.classes > 0 and row.test_images > 0, "state")
    check(place, 0 <= row.top1 <= 100 and 0 <= row.top5 <= 100, "accuracies")
    check(place, row.errors.keys() == set(ERROR_KINDS) and min(row.errors.values()) >= 0, "errors")
    check(place, len(row.past_errors_by_origin) == row.state and row.scores.keys() >= {"past", "new"}, "origins")
    check(place, len(row.correct_by_state or ()) == len(row.images_by_state or ()), "correct_by_state")
    check(place, row.cost is None or row.cost.keys() >= set(COSTS), "cost")


def read_of_trajectories(run: Path, name: str, titles: Mapping[tuple[str, str | None], str]) -> list[dict[str, Any]]:
    """Lines about states of trajectories, each with the title of its trajectory; none where there is no such file."""
    place = run / name
    kind: Any = dict(zip(_LINE_FILES, (_WeightsRecord, _MemoryRecord, _TimingRecord), strict=True))[name]
    found = list[dict[str, Any]]()
    for number, record in enumerate(read_json_lines(place) if place.exists() else (), 1):
        one: dict[str, Any] = decode(kind, record, f"{place}, line {number}")
        _check_names(place, one)
        check(place, one["state"] >= 0, "state")
        check(place, all(len(pair) == 2 for pair in one.get("kept", ())), "kept")
        check(place, "ranked" not in one or _is_ranked(one["ranked"]), "ranked")
        one["title"] = titles.get((one["trainer"], one["select"]), one["trainer"])
        found.append(one)
    return found


def _is_ranked(ranked: Mapping[str, Sequence[float]]) -> bool:
    """As many ranks of each kind; past classes have those of their first state, too."""
    whole = "past" not in ranked or "past_initial" in ranked
    return "new" in ranked and whole and {len(of) for of in ranked.values()} == {len(ranked["new"]) or -1}


def _check_names(place: Path | str, record: Mapping[str, Any]) -> None:
    """They stand in names of files."""
    for name in ("method", "trainer", "select"):
        value = record.get(name)
        check(place, value is None or _NAME.fullmatch(value), f"{name} {value!r:.60}")


def check(place: Path | str, sound: object, what: str) -> None:
    """An error that begins with the place, unless it is sound."""
    if not sound:
        raise ValueError(f"{place}: {what}: not as a run writes it")
