"""Many configurations with their data: settled, named, planned; finished ones are recognised and not run again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scail.benchmark.configuration import Configuration, memory_of, note_on_nothing, settle
from scail.benchmark.point import Point
from scail.benchmark.runner import config_of
from scail.benchmark.trajectory import trajectories_in
from scail.config import DataSettings, Experiment, with_defaults
from scail.config.former import present_name
from scail.config.recipes import PAPER_DATA
from scail.datasets import Dataset, load_dataset
from scail.datasets.sources.nominal import nominal_dataset
from scail.networks.precision import AUTO, FULL
from scail.results.archive import Archive, Pair, key_of_configuration, own_of, schedules_of
from scail.results.run_record import read_config, read_summary
from scail.stream import state_sizes

_DECIDING = ("experiment", "memory", "class_order", "state_sizes", "dataset", "provenance")
"""What of a config.json decides the results, beside the trajectories."""


@dataclass(frozen=True)
class Grid:
    """Many configurations whose data were looked for and whose values are fixed."""

    configurations: tuple[Configuration, ...]
    columns: tuple[str, ...]
    """The title of each one's column in the table: those that differ in their seed only share a column."""
    missing: dict[str, str]
    """Data sets that are not here, and why: planned from published numbers."""
    notes: tuple[str, ...]


def settle_grid(points: Sequence[Point], out: Path, archive: Archive | None = None) -> Grid:
    """Load each data set once, fix what is open, and give every configuration a folder below `out`.

    Methods whose numbers are in the `archive` are left out; a configuration may have none left.
    """
    if not points:
        raise ValueError("no configuration is left; ask for more data sets or methods")
    loaded: dict[tuple[str, DataSettings], Dataset] = {}
    missing, notes = dict[str, str](), list[str]()
    found: dict[Experiment, tuple[Configuration, str]] = {}
    for point in points:
        experiment = point.experiment
        place = experiment.dataset, experiment.data
        if place not in loaded:
            loaded[place] = _find(*place, missing)
        dataset, states = loaded[place], experiment.stream.states
        if isinstance(states, int) and states > len(dataset.class_names):
            notes.append(f"{dataset.name} has {len(dataset.class_names)} classes: Z={states} is left out")
            continue
        notes += note_on_nothing(experiment, dataset)
        # As a number, so that 2% and what it comes to are one configuration.
        experiment = experiment.but(memory=memory_of(experiment, dataset).asked)
        if experiment not in found:
            configuration = settle(experiment, dataset)
            name = _free_name(_name(configuration, point.varying), [one.title for one, _ in found.values()])
            known = _known(configuration, archive)
            if experiment.machine.precision == AUTO and _known(_in_full(configuration), archive) - known:
                notes.append(f"some numbers are known in {FULL}: --precision {FULL} goes on from them")
            configuration = replace(configuration, title=name, folder=out / name, asked=point.asked, known=known)
            found[experiment] = configuration, _title(configuration, point.varying)
    if not found:
        raise ValueError(f"no configuration is left: {'; '.join(dict.fromkeys(notes))}")
    configurations, columns = zip(*found.values(), strict=True)
    return Grid(configurations, columns, missing, tuple(dict.fromkeys(notes)))


def _known(configuration: Configuration, archive: Archive | None) -> frozenset[Pair]:
    """What was measured of it before."""
    return frozenset(archive.find(config_of(configuration)).pairs) if archive is not None else frozenset()


def _in_full(configuration: Configuration) -> Configuration:
    """The same in 32 bits: other numbers, which are never mixed with those of another precision."""
    return replace(configuration, experiment=configuration.experiment.but(precision=FULL))


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


def _states(configuration: Configuration) -> str:
    """Z; with the size of state 0 where it is not as the others."""
    sizes = tuple(len(state.class_names) for state in configuration.states)
    equal = sizes == state_sizes(sum(sizes), len(sizes))
    return str(len(sizes)) if equal else f"{len(sizes)}from{sizes[0]}"


def _name(configuration: Configuration, varying: Mapping[str, str]) -> str:
    stem, seed = Path(configuration.experiment.dataset).stem, configuration.experiment.seed
    rest = "".join(f"-{key}-{value}" for key, value in varying.items())
    each = "" if configuration.per_class is None else "-per-class"
    return f"{stem}-z{_states(configuration)}-b{configuration.memory}{each}{rest}-seed{seed}"


def _title(configuration: Configuration, varying: Mapping[str, str]) -> str:
    """Methods and selections are rows of the table: they need no column of their own."""
    rest = "".join(f", {key} {value}" for key, value in varying.items() if key not in ("methods", "select"))
    each = "" if configuration.per_class is None else f" ({configuration.per_class}/class)"
    return f"Z={_states(configuration)}, B={configuration.memory}{each}{rest}"


def _free_name(name: str, taken: Sequence[str]) -> str:
    """Two folders of images may have the same name, in different places."""
    n = 1
    while (f"{name}-{n}" if n > 1 else name) in taken:
        n += 1
    return f"{name}-{n}" if n > 1 else name


def is_finished(configuration: Configuration) -> bool:
    """Whether nothing is left to do: the results of this very configuration are there, table and figures included."""
    if not trajectories_in(configuration):
        return True
    folder = configuration.folder
    assert folder is not None
    try:
        before = read_config(folder)
        read_summary(folder, len(before["state_sizes"]))
    except (OSError, ValueError):
        return False
    now = json.loads(json.dumps(config_of(configuration)))
    before["experiment"] = with_defaults(before["experiment"])
    same = all(before.get(key) == now[key] for key in _DECIDING)
    # Of what was asked for, some may be known from elsewhere by now: then more is there than is wanted.
    return same and (folder / "table.md").is_file() and _methods(now) <= _methods(before)


def _methods(config: Mapping[str, Any]) -> set[tuple[object, ...]]:
    """Each method with its trainer, selection and memory."""
    lines = config.get("lines", ())
    return {
        (line["trainer"], line["select"], line["memory"], present_name(method, line["trainer"]))
        for line in lines
        for method in line["methods"]
    }


def grid_record(grid: Grid, name: str, command: Sequence[str]) -> dict[str, Any]:
    """What grid.json holds: every configuration with its folder and its place in the table."""
    cells = []
    for one, column in zip(grid.configurations, grid.columns, strict=True):
        experiment, config = one.experiment, config_of(one)
        place = {"folder": one.title, "dataset": Path(experiment.dataset).stem, "configuration": column}
        of = {"seed": experiment.seed, "methods": experiment.methods, "recipe": experiment.recipe.name}
        known = {"key": key_of_configuration(config), "schedules": schedules_of(config), "own": own_of(config)}
        cells.append({**place, **of, **known})
    return {"grid": name, "command": list(command), "notes": grid.notes, "cells": cells}
