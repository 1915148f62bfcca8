"""A grid of one's own: a YAML file with the options of `scail run`, where a list means each of its values.

A list of methods is what it is everywhere: several methods of one configuration. Lists of them are configurations.
"""

from __future__ import annotations

import difflib
import keyword
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

from scail.benchmark.point import Point, check_count
from scail.config import Experiment
from scail.config.options import CommandOptions, DeviceOptions, RunOptions, experiment_of
from scail.storage.plain_yaml import read_yaml
from scail.storage.reading import MIB, read_text
from scail.storage.records import decode

_OF_THE_COMMAND = {field.name for field in fields(CommandOptions)}
_OF_ONE_RUN = {field.name for field in fields(DeviceOptions)}
_IN_NAMES = ("dataset", "states", "memory", "seed")


def options_of(values: Mapping[str, object], where: str = "") -> RunOptions:
    """The options of `scail run` with these values; `where` begins every error."""
    hints = get_type_hints(RunOptions)
    decoded = {key: decode(hints[key], value, f"{where}{key}", lenient=True) for key, value in values.items()}
    return RunOptions(**decoded)


def file_grid(path: Path, options: Mapping[str, object]) -> list[Point]:
    """Every combination of the file's values, with what tells it from the others; `options` replace the file's own.

    Data set, states, memory and seed are named anyway; the rest is given by key.
    """
    replaced = {key: value if isinstance(value, list) else [value] for key, value in options.items()}
    given = read_grid_file(path) | replaced
    seeds = given.pop("seeds", [1])
    if len(seeds) != 1 or not isinstance(seeds[0], int) or seeds[0] < 1:
        raise ValueError(f"{path}: seeds: {seeds}: expected one number, 1 or more; particular seeds are `seed: [1, 5]`")
    check_count(str(path), seeds[0] * math.prod(map(len, given.values())))
    if seeds[0] > 1:
        given["seed"] = [n + i for n in given.get("seed", [1]) if isinstance(n, int) for i in range(seeds[0])]
    varying = [key for key, values in given.items() if len(values) > 1 and key not in _IN_NAMES]
    found: dict[RunOptions, dict[str, str]] = {}
    for values in product(*given.values()):
        one = dict(zip(given, values, strict=True))
        found.setdefault(options_of(one, f"{path}: "), {key.rstrip("_"): _slug(one[key]) for key in varying})
    return [Point(_experiment(path, of), varying=names) for of, names in found.items()]


def _experiment(path: Path, of: RunOptions) -> Experiment:
    try:
        return experiment_of(of)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_grid_file(path: Path) -> dict[str, list[object]]:
    """The file's keys, each with its list of values."""
    node, loaded = read_yaml(read_text(path, MIB), str(path))
    if not isinstance(loaded, dict) or not loaded:
        raise ValueError(f"{path}: expected options of `scail run` and their values, as `states: [10, 20]`")
    _check_keys(path, node)
    plain = {field_of(str(raw)): value for raw, value in loaded.items()}
    if isinstance(methods := plain.get("methods"), list) and not any(isinstance(one, list) for one in methods):
        plain["methods"] = [methods]  # together
    found = {key: _values(f"{path}: {key}", value) for key, value in plain.items()}
    return {key: values for key, values in found.items() if values != [None]}


def _values(where: str, value: object) -> list[object]:
    """One value, or each of a list; a list within a list is one value: state sizes, or several methods together."""
    values = (
        [",".join(map(str, v)) if isinstance(v, list) else v for v in value] if isinstance(value, list) else [value]
    )
    if not values or any(isinstance(v, dict) for v in values):
        raise ValueError(f"{where}: expected a value, or a list of values")
    return list(dict.fromkeys(values))


def _check_keys(path: Path, node: Any) -> None:
    """Every key is an option of `scail run`, and stands there once: YAML itself would silently take the last one."""
    seen = set[str]()
    for key_node, _ in node.value:
        place = f"{path}, line {key_node.start_mark.line + 1}"
        key = _known_key(place, str(key_node.value))
        if key in seen:
            raise ValueError(f"{place}: {key} is given twice; put all values into one list")
        seen.add(key)


def field_of(key: str) -> str:
    """The option that a key means.

    >>> field_of("image-size"), field_of("with")
    ('image_size', 'with_')
    """
    name = key.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def _known_key(place: str, raw: str) -> str:
    key, known = field_of(raw), [field.name for field in fields(RunOptions)]
    if key in _OF_THE_COMMAND:
        raise ValueError(f"{place}: {raw} belongs to the command line: give it as --{key}")
    if key in _OF_ONE_RUN:
        raise ValueError(f"{place}: {raw} belongs to `scail run`: a grid trains each network on one device")
    if key not in known:
        usable = [name.rstrip("_") for name in known if name not in _OF_ONE_RUN]
        near = difflib.get_close_matches(key, usable, 1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(usable)}."
        raise ValueError(f"{place}: unknown key {raw!r}; {hint} Keys are the options of `scail run`")
    return key


def _slug(value: object) -> str:
    """A value as part of a folder's name."""
    return re.sub(r"[^\w.]+", "-", str(value).replace("%", "pct")).strip("-") or "none"
