"""Measured beside published: each cell of the paper's tables that a run matches, and what differs in its settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scail.config import NUMBER, RECIPES, DataSettings, HeadOptions, Recipe, schedules_in, settings_of, with_defaults
from scail.config.recipes import PAPER_DATA
from scail.evaluation import gap_to_full
from scail.results.published import DATASETS, published, published_full, published_label
from scail.results.run_directory import read_lines
from scail.results.run_record import read_config, read_summary


@dataclass(frozen=True)
class Beside:
    """One measured number beside the published cell that it matches."""

    label: str
    dataset: str
    states: int
    memory: int
    measured: float
    published: float
    measured_full: float | None
    published_full: float


def compare(config: Mapping[str, Any], summary: Mapping[str, Any]) -> list[Beside]:
    """The cells that this run measures."""
    dataset = DATASETS.get(config["dataset"]["name"])
    sizes = config["state_sizes"]
    if dataset is None or len(set(sizes)) != 1:
        return []
    full = summary["full"]["top5"] if summary["full"] else None
    found = []
    for record in summary["methods"]:
        label = published_label(record)
        for cell in published():
            if (cell.label, cell.dataset, cell.states, cell.memory) == (label, dataset, len(sizes), record["memory"]):
                values = (record["top5"], cell.top5, full, published_full(dataset))
                found.append(Beside(cell.label, dataset, cell.states, cell.memory, *values))
    return list(dict.fromkeys(found))  # a run may have FT^noMem under both of its names


def differences(config: Mapping[str, Any]) -> list[str]:
    """Which settings differ from the paper's, as far as the recipe `paper` has them."""
    mine = with_defaults(config["experiment"])
    theirs = json.loads(json.dumps(RECIPES["paper"](config["dataset"]["name"]).record()))
    schedules = schedules_in(theirs)
    settings = [
        setting.name for setting in settings_of(Recipe, DataSettings, HeadOptions).values() if setting.role == NUMBER
    ]
    found = []
    for name in (*schedules, "class_order", *settings):
        if mine.get(name) == theirs[name]:
            continue
        if name in schedules:
            pairs = {
                k: (mine.get(name, {}).get(k, "none"), theirs[name].get(k, "none"))
                for k in {**mine.get(name, {}), **theirs[name]}
            }
            changed = {k: pair for k, pair in pairs.items() if pair[0] != pair[1]}
            found += [f"{name}.{k}: {v} (paper: {other})" for k, (v, other) in changed.items()]
        else:
            found.append(f"{name}: {mine.get(name)} (paper: {theirs[name]})")
    return found + _data_differences(config["dataset"])


def how_trained(config: Mapping[str, Any], run: Path) -> list[str]:
    """Which recipe a run used, and whether its plateau rule ever lowered the rate."""
    recipe, dataset = config["experiment"].get("recipe", ""), config["dataset"]["name"]
    said = {"paper": " (the paper's text)", "paper-code": " (the authors' public code)"}.get(recipe, "")
    texts = [f"Recipe: {recipe}{said}."]
    if dataset == "cifar100" and recipe.startswith("paper") and config["experiment"]["network"] == "resnet18-3x3":
        texts.append("The authors' scripts for CIFAR-100 have a 7x7 stem at 224 pixels only: recipe paper-224.")
    timing = run / "timing.jsonl"
    lowered = [line["rate_lowered"] for line in read_lines(timing) if "rate_lowered" in line] if timing.exists() else []
    if lowered:
        texts.append(f"The plateau rule lowered the rate in {sum(map(bool, lowered))} of {len(lowered)} trainings.")
    return texts


def _data_differences(data: Mapping[str, Any]) -> list[str]:
    """Other numbers of images than the paper's, and what was noted when the data were read."""
    _, train, test = PAPER_DATA[data["name"]]
    pairs = (("training", data["train_images"], train), ("test", data["test_images"], test))
    found = [f"{mine} {kind} images (paper: {theirs})" for kind, mine, theirs in pairs if mine != theirs]
    return found + [f"data: {note}" for note in data.get("notes", ())]


def nearest(config: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Why a run matches no cell, and the cell that it comes closest to."""
    name, sizes = config["dataset"]["name"], config["state_sizes"]
    memory = max((record["memory"] for record in summary["methods"]), default=0)
    dataset = DATASETS.get(name)
    reasons = [] if dataset else [f"the data set {name} is not in the paper (it has {', '.join(DATASETS)})"]
    cells = [c for c in published() if c.label != "Full" and c.dataset == (dataset or "CIFAR-100")]
    best = min(
        cells, key=lambda c: ((c.memory == 0) != (memory == 0), abs(c.states - len(sizes)), abs(c.memory - memory))
    )
    if len(set(sizes)) != 1:
        reasons.append("its states are of unequal size")
    if not any((c.states, c.memory) == (len(sizes), memory) for c in cells):
        reasons.append(f"Z={len(sizes)} with a memory of {memory} is not among the configurations")
    if not any(published_label(record) for record in summary["methods"]):
        reasons.append("none of its methods and selections has a row")
    return f"{'; '.join(reasons)}. The nearest: {best.dataset}, Z={best.states}, memory of {best.memory}"


def gaps(found: Sequence[Beside]) -> dict[str, tuple[float | None, float, int]]:
    """For each row, G_IL measured and published over the same configurations, and how many these are."""
    result = {}
    for label in dict.fromkeys(one.label for one in found):
        mine = [one for one in found if one.label == label]
        theirs = gap_to_full([one.published for one in mine], [one.published_full for one in mine])
        fulls = [one.measured_full for one in mine if one.measured_full is not None and one.measured_full < 100]
        known = len(fulls) == len(mine)
        result[label] = (gap_to_full([one.measured for one in mine], fulls) if known else None, theirs, len(mine))
    return result


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Every run directory at or below these places."""
    runs = []
    for place in places:
        found = sorted(
            path.parent for path in Path(place).rglob("summary.json") if (path.parent / "results.jsonl").is_file()
        )
        if not found:
            raise ValueError(f"{place}: no finished run there (no summary.json); give the --out folder of `scail run`")
        # The folder of several seeds holds their means and has no lines of its own.
        runs += (whole := [run for run in found if (run / "results.jsonl").stat().st_size])
        if not whole:
            raise ValueError(f"{found[0] / 'results.jsonl'}: is empty; run it again, or leave this run out")
    return runs


def read_run(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Column and summary of a run."""
    config = read_config(run)
    return config, read_summary(run, len(config["state_sizes"]))
