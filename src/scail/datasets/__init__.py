"""Where images come from: data sets by name or place.

The names below are loaded when they are first used, so that listing the data sets needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scail.config import DataSettings
from scail.datasets.catalog import DATASETS

if TYPE_CHECKING:
    from scail.datasets.dataset import Dataset, Images, Split
    from scail.datasets.load import load_dataset, load_part

__all__ = ["DATASETS", "DataSettings", "Dataset", "Images", "Split", "load_dataset", "load_part"]

_HOMES = {"Dataset": "dataset", "Images": "dataset", "Split": "dataset", "load_dataset": "load", "load_part": "load"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"scail.datasets.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'scail.datasets' has no attribute {name!r}")
