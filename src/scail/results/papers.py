"""Numbers of other papers, each with the protocol that it was measured by: small CSV files, to which anyone can add.

A number is compared with a run of the very same protocol only: data, classes, order, states, memory and test images.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from scail.results.measures import MEASURES
from scail.storage.reading import MIB, read_text

COLUMNS = (
    "paper", "method", "select", "dataset", "classes", "order", "states", "first", "memory", "memory_per_class",
    "split", "measure", "state", "value", "source",
)  # fmt: skip
"""What a file has. `first`: classes in state 0, where they are not as many as in the others. Of `memory` (in all) and
`memory_per_class` one is given. With a `state` it is the number after that state, else that of the whole run. An empty
`split`: the data set's own test images."""
_PER_STATE = ("top1", "top5")


@dataclass(frozen=True)
class PaperNumber:
    """One published number."""

    paper: str
    method: str
    select: str | None
    protocol: tuple[object, ...]
    """Data set, number of classes, their order, states, classes of an unequal first state, memory in all, memory of
    each class, and split."""
    measure: str
    state: int | None
    value: float
    source: str


@dataclass(frozen=True)
class BesidePaper:
    """A published number, and what a run of the same protocol has measured."""

    number: PaperNumber
    label: str
    measured: float


def paper_numbers(more: Iterable[Path] = ()) -> list[PaperNumber]:
    """All numbers that come with scail, and those of further files."""
    own = sorted((files("scail.results") / "published_tables" / "papers").iterdir(), key=lambda path: path.name)
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in own if path.name.endswith(".csv")]
    for path in more:
        try:
            texts.append((str(path), read_text(path, 16 * MIB)))
        except OSError as error:
            raise ValueError(f"{path}: cannot be read as a table of published numbers: {error}") from error
    return [number for name, text in texts for number in _read(name, text)]


def _read(name: str, text: str) -> Iterable[PaperNumber]:
    rows = csv.DictReader(text.splitlines())
    try:
        if missing := [column for column in COLUMNS if column not in (rows.fieldnames or ())]:
            raise ValueError(f"has no column {missing[0]}; expected {', '.join(COLUMNS)}")
        for row in rows:
            yield _number(row)
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"{name}, line {rows.line_num}: {error}") from None


def _number(row: Mapping[str, str]) -> PaperNumber:
    def whole(name: str) -> int | None:
        return int(row[name]) if row[name] else None

    if not row["source"]:
        raise ValueError("has no source; expected where the number stands")
    if (whole("memory") is None) == (whole("memory_per_class") is None):
        raise ValueError("expected one of memory and memory_per_class")
    known = _PER_STATE if row["state"] else tuple(MEASURES)
    if row["measure"] not in known:
        raise ValueError(f"measure {row['measure']!r}: expected one of {', '.join(known)}")
    value = float(row["value"])
    if not -100 <= value <= 100:
        raise ValueError(f"value {row['value']}: expected percent")
    protocol = (
        row["dataset"], int(row["classes"]), row["order"], int(row["states"]), whole("first"), whole("memory"),
        whole("memory_per_class"), row["split"],
    )  # fmt: skip
    return PaperNumber(
        row["paper"], row["method"], row["select"] or None, protocol, row["measure"], whole("state"), value,
        row["source"],
    )  # fmt: skip


def protocol_of_run(config: Mapping[str, Any]) -> tuple[object, ...] | None:
    """The same of a run; None where states after the first are of unequal size: no published number is of such."""
    experiment, sizes = config["experiment"], config["state_sizes"]
    if len(set(sizes[1:])) > 1:
        return None
    first = sizes[0] if len(set(sizes)) > 1 else None
    each = config.get("memory_per_class")
    split = experiment.get("split", "") if config["dataset"]["name"] == "ilsvrc" else ""
    order = experiment["class_order"]
    memory = config.get("memory") if each is None else None
    name = config["dataset"]["name"]
    return name, sum(sizes), order if isinstance(order, str) else "own", len(sizes), first, memory, each, split


def beside_papers(
    config: Mapping[str, Any], summary: Mapping[str, Any], numbers: Iterable[PaperNumber]
) -> list[BesidePaper]:
    """The numbers that this run can be held against."""
    protocol, found = protocol_of_run(config), []
    records = {(record["method"], record["select"]): record for record in summary["methods"]}
    for number in numbers:
        record = records.get((number.method, number.select))
        if protocol is None or number.protocol != protocol or record is None:
            continue
        states = record["per_state"] if number.state is not None else [record]
        of = dict(enumerate(states)).get(number.state or 0, {})
        if of.get(number.measure) is not None:
            found.append(BesidePaper(number, record["label"], of[number.measure]))
    return found
