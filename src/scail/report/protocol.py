"""Which runs may stand in one table: those of one protocol. What differs between the others is said in words.

A *comparison* has one protocol (data, split, class order, averaging); its columns are *configurations* (states, memory,
settings); the runs of a configuration differ in their seeds only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scail.config import ASKED, WAY, DataSettings, names_with, schedules_in, settings_of, with_defaults
from scail.report.grid import Columns, joined
from scail.report.runs import FinishedRun
from scail.results.summary import summarise_seeds

_NOT_SETTINGS = {"seed", "threads", *settings_of(DataSettings), *names_with(ASKED, WAY)}
"""Told elsewhere (the data by their fingerprint), or without influence on what is compared."""


@dataclass(frozen=True)
class Column:
    """Runs that differ in their seeds (or in their methods) only, and their numbers together."""

    title: str
    runs: tuple[FinishedRun, ...]
    summary: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def states(self) -> int:
        """Z."""
        return len(self.runs[0].config["state_sizes"])

    @property
    def memory(self) -> int:
        """B."""
        return int(self.runs[0].config["memory"])


@dataclass(frozen=True)
class Comparison:
    """Configurations of one protocol."""

    title: str
    protocol: dict[str, str]
    configurations: tuple[Column, ...]
    differing: dict[str, tuple[str, ...]]
    """Settings in which its configurations differ, with their values."""

    @property
    def columns(self) -> Columns:
        """The configurations' summaries by title."""
        return {one.title: one.summary for one in self.configurations}


def protocol_of(run: FinishedRun) -> dict[str, str]:
    """What two runs must have in common to stand in one table."""
    config, data = run.config, run.config["dataset"]
    rule = config["experiment"]["class_order"]
    by_seed = (
        "drawn by the seed"
        if rule == "seed"
        else f"fixed ({config.get('provenance', {}).get('class_order_hash', 'not recorded')})"
    )
    return {
        "data": f"{data['name']} ({data['fingerprint']})",
        "classes": str(len(config["class_order"])),
        "images": f"{data['train_images']} to train on, {data['test_images']} to test on",
        "test images": str(data.get("split", "not recorded")),
        "class order": by_seed,
        "averaging": str(run.summary["averaging"]),
    }


def compare(runs: Sequence[FinishedRun]) -> list[Comparison]:
    """The runs, sorted into comparisons and configurations."""
    by_protocol: dict[tuple[str, ...], list[FinishedRun]] = {}
    for run in runs:
        by_protocol.setdefault(tuple(protocol_of(run).values()), []).append(run)
    names = [of[0].config["dataset"]["name"] for of in by_protocol.values()]
    titles = [f"{name} ({n + 1})" if names.count(name) > 1 else name for n, name in enumerate(names)]
    return [_comparison(title, mine) for title, mine in zip(titles, by_protocol.values(), strict=True)]


def _comparison(title: str, runs: Sequence[FinishedRun]) -> Comparison:
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for of in settings for name in of)
    differing = {name: tuple(dict.fromkeys(of.get(name, "–") for of in settings)) for name in names}
    differing = {name: values for name, values in differing.items() if len(values) > 1}
    by_title: dict[str, list[FinishedRun]] = {}
    for run, of in zip(runs, settings, strict=True):
        sizes, memory = run.config["state_sizes"], run.config["memory"]
        rest = "".join(f", {name} {of.get(name, '–')}" for name in differing)
        each = f" ({run.config['memory_per_class']}/class)" if "memory_per_class" in run.config else ""
        by_title.setdefault(f"Z={_states(sizes)}, B={memory}{each}{rest}", []).append(run)
    found = (Column(name, tuple(mine), *_together(mine)) for name, mine in by_title.items())
    ordered = sorted(found, key=lambda one: (one.states, -one.memory))
    return Comparison(title, protocol_of(runs[0]), tuple(ordered), differing)


def _states(sizes: Sequence[int]) -> str:
    """Z; with the size of state 0 where it is larger than the others."""
    return str(len(sizes)) if max(sizes) - min(sizes) <= 1 else f"{len(sizes)} from {sizes[0]}"


def _settings(run: FinishedRun) -> dict[str, str]:
    """Everything else that changes numbers, by name."""
    found = dict[str, str]()
    schedules = schedules_in(run.config["experiment"])
    for name, value in with_defaults(run.config["experiment"]).items():
        if name in schedules:
            found |= {f"{name.removesuffix('_schedule')} {key}": str(v) for key, v in value.items()}
        elif name not in _NOT_SETTINGS:
            found[name.replace("_", " ")] = str(value)
    found["on disk"] = str(run.config["dataset"].get("on_disk", False))
    return found


def _together(runs: Sequence[FinishedRun]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """One summary for runs of one configuration: methods joined, seeds averaged."""
    notes = list[str]()
    by_seed: dict[int, list[FinishedRun]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    summaries = dict[int, dict[str, Any]]()
    for seed, mine in by_seed.items():
        summaries[seed] = dict(mine[0].summary)
        for run in mine[1:]:
            summaries[seed] = joined(summaries[seed], run.summary)
        notes += _repeated(seed, mine)
    if len(summaries) == 1:
        return next(iter(summaries.values())), tuple(notes)
    keys = [{_key(record) for record in summary["methods"]} for summary in summaries.values()]
    common = set.intersection(*keys)
    left_out = sorted({f"{m} ({s or 'no memory'})" for m, s, _ in set.union(*keys) - common})
    if left_out:
        notes.append(f"Not every seed has {', '.join(left_out)}: left out of the means.")
    first = next(iter(summaries.values()))
    order = [_key(record) for record in first["methods"] if _key(record) in common]
    for summary in summaries.values():
        records = {_key(record): record for record in summary["methods"]}
        summary["methods"] = [records[key] for key in order]
    return summarise_seeds(summaries), tuple(notes)


def _key(record: Mapping[str, Any]) -> tuple[str, str | None, int]:
    return record["method"], record["select"], record["memory"]


def _repeated(seed: int, runs: Sequence[FinishedRun]) -> list[str]:
    """Where two runs of one seed have other numbers for a method: those of the first are shown."""
    notes = []
    first: dict[tuple[str, str | None, int], tuple[FinishedRun, Mapping[str, Any]]] = {}
    for run in runs:
        for record in run.summary["methods"]:
            shown, before = first.setdefault(_key(record), (run, record))
            if (before["top1"], before["top5"]) != (record["top1"], record["top5"]):
                notes.append(
                    f"Seed {seed} was run twice with other numbers for {record['label']}; those of {shown.path} are "
                    f"shown, not those of {run.path}."
                )
    return notes


def what_differs(comparisons: Sequence[Comparison]) -> list[str]:
    """Why there are several tables, in words; nothing where there is one protocol."""
    if len(comparisons) < 2:
        return []
    found = []
    for name in comparisons[0].protocol:
        values = {one.title: one.protocol[name] for one in comparisons}
        if len(set(values.values())) > 1:
            found.append(f"{name}: " + "; ".join(f"{title}: {value}" for title, value in values.items()))
    return found
