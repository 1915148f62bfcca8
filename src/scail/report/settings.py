"""Which kept numbers may stand in one table, and what sets the settings of several tables apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scail.config import schedules_in as schedules_among
from scail.report.claims import place_of
from scail.results.archive import Contribution, Measurements
from scail.results.row import Row

_VARIES = ("seed",)
"""What of an experiment tells two runs of one table apart, beside Z, B and the class order."""
BASE = "base"


def settings_of(kept: Measurements) -> str:
    """What must be alike for numbers to stand in one table."""
    configuration = kept.configuration
    experiment = {name: value for name, value in configuration["experiment"].items() if name not in _VARIES}
    return json.dumps({"dataset": configuration["dataset"], "experiment": experiment}, sort_keys=True)


def group_by_settings(kept: Iterable[Measurements]) -> list[list[Measurements]]:
    """Runs that may stand in one table, together: what was trained with other schedules is another table's."""
    alike: dict[str, list[Measurements]] = {}
    for one in kept:
        alike.setdefault(settings_of(one), []).append(one)
    groups = []
    for of in alike.values():
        usual, *others = schedules_in(of)
        groups.append([found for one in of if (found := one.matching(usual)).parts])
        for schedules in others:
            apart = {name for name, value in schedules.items() if usual.get(name) != value}
            groups.append([found for one in of if (found := _trained_apart(one.matching(schedules), apart)).parts])
    return [sorted(group, key=_place_order) for group in groups if group]


def _trained_apart(kept: Measurements, schedules: set[str]) -> Measurements:
    """What was trained with these schedules, and Full beside it; of other trainers the usual table tells."""

    def mine(part: Contribution, row: Row) -> bool:
        return not schedules.isdisjoint(part.used_by(row.trainer))

    if not any(mine(part, row) for part in kept.parts for row in part.rows):
        return Measurements(kept.configuration, [])
    parts = [
        Contribution(p.made, [row for row in p.rows if mine(p, row) or row.trainer == "joint"]) for p in kept.parts
    ]
    return Measurements(kept.configuration, [part for part in parts if part.rows])


def schedules_in(kept: Iterable[Measurements]) -> list[dict[str, Any]]:
    """The sets of schedules that go together: what most runs of each trainer had, then whatever differs from it."""
    had: dict[str, list[dict[str, Any]]] = {}
    for part in (part for one in kept for part in one.parts):
        for trainer in dict.fromkeys(row.trainer for row in part.rows):
            used = {name: part.made["schedules"][name] for name in part.used_by(trainer)}
            had.setdefault(trainer, []).append(used)
    usual: dict[str, Any] = {}
    for of in sorted(had.values(), key=lambda of: -max(map(of.count, of))):
        agreeing = [used for used in of if _agree(used, usual)]
        most = max(agreeing, key=of.count) if agreeing else {}
        usual |= most
    found = [usual]
    for used in (used for of in had.values() for used in of):
        if all(name in usual and usual[name] == value for name, value in used.items()):
            continue
        apart = {name: value for name, value in used.items() if usual.get(name) != value}
        fits = [one for one in found[1:] if _agree(used, one) and any(one.get(name) == apart[name] for name in apart)]
        if fits:
            fits[0].update(used)
        else:
            found.append(dict(used))
    return found


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())


def _place_order(kept: Measurements) -> tuple[bool, int, int]:
    memory = kept.configuration["memory"]
    return (memory == 0, place_of(kept)[0], -memory)


def titles_of(groups: Sequence[Sequence[Measurements]]) -> list[str]:
    """What sets each of these settings apart from what most rows have, where there is a most; else from the defaults.

    A schedule that none of its rows had is taken to be the common one: nothing is said of it.
    """
    weights = [sum(len(one.rows) for one in group) for group in groups]
    first = [group[0].configuration for group in groups]
    schedules = dict.fromkeys(name for one in first for name in schedules_among(one["experiment"]))
    common = {
        name: _most(
            [(one["experiment"][name], n) for one, n in zip(first, weights, strict=True) if name in one["experiment"]]
        )
        for name in schedules
    }
    flat = [_flat(one["dataset"], {**common, **one["experiment"]}) for one in first]
    names = list(dict.fromkeys(name for one in flat for name in one))
    usual = {name: _most([(one.get(name), n) for one, n in zip(flat, weights, strict=True)]) for name in names}
    titles = []
    for one in flat:
        apart = {name: one.get(name) for name in names if one.get(name) != usual[name]}
        titles.append(", ".join(f"{name} {value or 'by default'}" for name, value in apart.items()) or BASE)
    return [title if titles.count(title) == 1 else f"{title} ({n + 1})" for n, title in enumerate(titles)]


def _most(had: Sequence[tuple[Any, int]]) -> Any:
    """Of (value, rows), the value with the most rows; of equal ones None, the default."""
    return max((v for v, _ in had), key=lambda v: (sum(n for value, n in had if value == v), v is None))


def _flat(dataset: Mapping[str, Any], experiment: Mapping[str, Any]) -> dict[str, str]:
    """Settings by name, as they are said: `network`, `later lr`, ..."""
    found = {"images": dataset["split"], "from": str(dataset["name"])}
    for name, value in experiment.items():
        if name in schedules_among(experiment):
            found |= {f"{name.removesuffix('_schedule')} {part}".replace("_", " "): str(v) for part, v in value.items()}
        elif name not in _VARIES:
            found[name.replace("_", " ")] = "all" if value is None else "yes" if value is True else str(value)
    return found
