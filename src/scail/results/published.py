"""The numbers that the paper published, and which method and selection each of its rows is."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

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


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("scail.results") / "published_tables" / name).read_text(encoding="utf-8")
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


def published_label(record: Mapping[str, Any]) -> str | None:
    """The row of the published tables that this method, selection and memory belong to."""
    if record["memory"] == 0:  # FT without a memory is FT^noMem by another name
        return WITHOUT_MEMORY.get("ft_nomem" if record["method"] == "ft" else record["method"])
    return WITH_MEMORY.get((record["method"], record["select"]))
