"""Many configurations with their data: settled, named, planned; finished ones are recognised and not run again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scail.benchmark.configuration import Setup, config_of, data_settings, memory_size, set_up
from scail.benchmark.paper_grids import Wanted
from scail.benchmark.plan import Cell
from scail.cli.run import experiment_of
from scail.config.recipes import PAPER_DATA, Experiment
from scail.datasets import Dataset, DataSettings, load_dataset
from scail.datasets.sources.nominal import nominal_dataset
from scail.results.archive import Archive, key_of_configuration, schedules_of
from scail.stream import state_sizes

_DECIDING = ("experiment", "memory", "class_order", "state_sizes", "dataset", "provenance")
"""What of a config.json decides the results, beside the lines."""


@dataclass(frozen=True)
class Column:
    """Where a cell stands in the grid's table: configurations that differ in their seed only share a column."""

    dataset: str
    title: str
    seed: int


@dataclass(frozen=True)
class Settled:
    """A grid whose data were looked for and whose values are fixed."""

    cells: tuple[Cell, ...]
    columns: tuple[Column, ...]
    missing: dict[str, str]
    """Data sets that are not here, and why: planned from published numbers."""
    notes: tuple[str, ...]


def settle(wanted: Sequence[Wanted], out: Path, archive: Archive | None = None) -> Settled:
    """Load each data set once, fix what is open, and give every configuration a folder below `out`.

    Methods whose numbers are in the `archive` are left out; a configuration may have none left.
    """
    if not wanted:
        raise ValueError("no configuration is left; ask for more data sets or methods")
    loaded: dict[tuple[str, DataSettings], Dataset] = {}
    missing, notes = dict[str, str](), list[str]()
    found: dict[Experiment, tuple[Cell, Column]] = {}
    for want in wanted:
        experiment = experiment_of(want.run)
        asked = experiment.dataset, data_settings(experiment)
        if asked not in loaded:
            loaded[asked] = _find(*asked, missing)
        dataset = loaded[asked]
        if isinstance(experiment.states, int) and experiment.states > len(dataset.class_names):
            notes.append(f"{dataset.name} has {len(dataset.class_names)} classes: Z={experiment.states} is left out")
            continue
        # As a number, so that 2% and what it comes to are one configuration.
        experiment = replace(experiment, memory=memory_size(experiment.memory, len(dataset.train)))
        if experiment not in found:
            setup = _unknown_part(set_up(experiment, dataset), archive)
            column = Column(Path(experiment.dataset).stem, _title(setup, want.varying), experiment.seed)
            name = _free_name(_name(setup, want.varying), [cell.title for cell, _ in found.values()])
            found[experiment] = Cell(setup, out / name, name, want.rows), column
    if not found:
        raise ValueError(f"no configuration is left: {'; '.join(dict.fromkeys(notes))}")
    cells, columns = zip(*found.values(), strict=True)
    return Settled(cells, columns, missing, tuple(dict.fromkeys(notes)))


def _unknown_part(setup: Setup, archive: Archive | None) -> Setup:
    """Without the methods whose numbers are known."""
    if archive is None:
        return setup
    known = archive.find(config_of(setup)).pairs
    lines = [
        replace(line, methods=tuple(m for m in line.methods if (m, line.select) not in known)) for line in setup.lines
    ]
    return replace(setup, lines=tuple(line for line in lines if line.methods))


def _find(name: str, settings: DataSettings, missing: dict[str, str]) -> Dataset:
    """The data set; where it is not here but its numbers were published, these."""
    try:
        return load_dataset(name, settings)
    except (ValueError, OSError) as error:
        if name not in PAPER_DATA:
            raise
        dataset = nominal_dataset(
            name, settings.classes, settings.images_per_class, settings.image_size
        )  # a mistake in the settings is one here, too
        missing[name] = str(error)
        return dataset


def _states(setup: Setup) -> str:
    """Z; with the size of state 0 where it is not as the others."""
    sizes = tuple(len(state.class_names) for state in setup.states)
    equal = sizes == state_sizes(sum(sizes), len(sizes))
    return str(len(sizes)) if equal else f"{len(sizes)}from{sizes[0]}"


def _name(setup: Setup, varying: Mapping[str, str]) -> str:
    stem, seed = Path(setup.experiment.dataset).stem, setup.experiment.seed
    rest = "".join(f"-{key}-{value}" for key, value in varying.items())
    return f"{stem}-z{_states(setup)}-b{setup.memory}{rest}-seed{seed}"


def _title(setup: Setup, varying: Mapping[str, str]) -> str:
    """Methods and selections are rows of the table: they need no column of their own."""
    rest = "".join(f", {key} {value}" for key, value in varying.items() if key not in ("methods", "select"))
    return f"Z={_states(setup)}, B={setup.memory}{rest}"


def _free_name(name: str, taken: Sequence[str]) -> str:
    """Two folders of images may have the same name, in different places."""
    n = 1
    while (f"{name}-{n}" if n > 1 else name) in taken:
        n += 1
    return f"{name}-{n}" if n > 1 else name


def is_finished(cell: Cell) -> bool:
    """Whether nothing is left to do: the results of this very configuration are there, table and figures included."""
    if not cell.setup.lines:
        return True
    try:
        before = json.loads((cell.folder / "config.json").read_text(encoding="utf-8"))
        json.loads((cell.folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    now = json.loads(json.dumps(config_of(cell.setup)))
    same = all(before.get(key) == now[key] for key in _DECIDING)
    # Of what was asked for, some may be known from elsewhere by now: then more is there than is wanted.
    return same and (cell.folder / "table.md").is_file() and _methods(now) <= _methods(before)


def _methods(config: Mapping[str, Any]) -> set[tuple[object, ...]]:
    """Each method with its trainer, selection and memory."""
    lines = config.get("lines", ())
    return {(line["trainer"], line["select"], line["memory"], method) for line in lines for method in line["methods"]}


def grid_record(settled: Settled, name: str, command: Sequence[str]) -> dict[str, Any]:
    """What grid.json holds: every configuration with its folder and its place in the table."""
    cells = [
        {"folder": cell.folder.name, "dataset": column.dataset, "configuration": column.title, "seed": column.seed,
         "methods": cell.setup.experiment.methods, "recipe": cell.setup.experiment.recipe,
         "key": key_of_configuration(config), "schedules": schedules_of(config)}
        for cell, column in zip(settled.cells, settled.columns, strict=True)
        for config in [config_of(cell.setup)]
    ]  # fmt: skip
    return {"grid": name, "command": list(command), "notes": settled.notes, "cells": cells}
