"""Measured beside published: each cell of the paper's tables that a run matches, and what differs in its settings."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from scail.config.recipes import PAPER_DATA, RECIPES
from scail.evaluation import gap_to_full

DATASETS = {"ilsvrc": "ILSVRC", "vggface2": "VGGFace2", "landmarks": "Landmarks", "cifar100": "CIFAR-100"}
WITH_MEMORY = {
    ("icarl", "herding"): "iCaRL^herd", ("bic", "herding"): "BiC^herd", ("deesil", "random"): "DeeSIL",
    ("ft", "random"): "FT", ("ft_nem", "random"): "FT^NEM", ("ft_bal", "random"): "FT^BAL",
    ("ft_l2", "random"): "FT^L2", ("ft_init", "random"): "FT_init", ("ft_init_l2", "random"): "FT_init^L2",
    ("scail", "random"): "ScaIL", ("scail", "herding"): "ScaIL^herd",
}  # fmt: skip
"""(method, selection) of the rows of Table 1."""
WITHOUT_MEMORY = {
    "lwf": "LwF", "ft_nomem": "FT^noMem", "ft_l2": "FT^L2", "ft_init": "FT_init", "ft_init_l2": "FT_init^L2",
    "scail": "ScaIL",
}  # fmt: skip
"""The rows of the supplementary table without a memory."""


@dataclass(frozen=True)
class Published:
    """One cell of a published table: top-5, averaged over the incremental states."""

    label: str
    dataset: str
    states: int
    memory: int
    top5: float


@dataclass(frozen=True)
class Comparison:
    """One measured number, and the cell that it matches."""

    label: str
    dataset: str
    states: int
    memory: int
    measured: float
    published: float
    measured_full: float | None
    published_full: float


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("scail.report") / "published" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def published() -> tuple[Published, ...]:
    """Every cell of Table 1 and of the supplementary table without a memory; Full has one state."""
    cells = [
        Published(r["method"], r["dataset"], int(r["states"]), int(r["memory"] or 0), float(r["top5"]))
        for r in _rows("table1_top5.csv")
    ]
    return (
        *cells,
        *(
            Published(r["method"], r["dataset"], int(r["states"]), 0, float(r["top5"]))
            for r in _rows("no_memory_top5.csv")
        ),
    )


def published_full(dataset: str) -> float:
    """Full's published top-5 on this data set."""
    return next(cell.top5 for cell in published() if (cell.label, cell.dataset) == ("Full", dataset))


def compare(config: Mapping[str, Any], summary: Mapping[str, Any]) -> list[Comparison]:
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
                found.append(Comparison(cell.label, dataset, cell.states, cell.memory, *values))
    return list(dict.fromkeys(found))  # a run may have FT^noMem under both of its names


def published_label(record: Mapping[str, Any]) -> str | None:
    """The row of the published tables that this method, selection and memory belong to."""
    if record["memory"] == 0:  # FT without a memory is FT^noMem by another name
        return WITHOUT_MEMORY.get("ft_nomem" if record["method"] == "ft" else record["method"])
    return WITH_MEMORY.get((record["method"], record["select"]))


def differences(config: Mapping[str, Any]) -> list[str]:
    """Which settings differ from the paper's, as far as the recipe `paper` has them."""
    mine = config["experiment"]
    theirs = json.loads(json.dumps(asdict(RECIPES["paper"](config["dataset"]["name"]))))
    watched = [name for name in theirs if name.endswith("_schedule")]
    watched += ["network", "class_order", "classes", "images_per_class", "image_size", "split", "keep_past_rows"]
    watched += ["candidates", "as_published", "padding"]
    found = []
    for name in watched:
        if mine.get(name) == theirs[name]:
            continue
        if name.endswith("_schedule"):
            changed = {k: (v, theirs[name][k]) for k, v in mine[name].items() if v != theirs[name][k]}
            found += [f"{name}.{k}: {v} (paper: {other})" for k, (v, other) in changed.items()]
        else:
            found.append(f"{name}: {mine.get(name)} (paper: {theirs[name]})")
    return found + _data_differences(config["dataset"])


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


def gaps(found: Sequence[Comparison]) -> dict[str, tuple[float | None, float, int]]:
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
        runs += [run for run in found if (run / "results.jsonl").stat().st_size]
    return runs


def read_run(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration and summary of a run."""
    config, summary = (json.loads((run / name).read_text(encoding="utf-8")) for name in ("config.json", "summary.json"))
    return config, summary
