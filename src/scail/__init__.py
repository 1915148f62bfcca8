"""scail: teach an image classifier new classes over time, when old data can't be kept.

The public names below are loaded when they are first used, so that importing scail costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scail import evaluation, heads
    from scail.benchmark.runner import run_experiment
    from scail.classifier.in_folder import learn_into
    from scail.classifier.incremental_classifier import IncrementalClassifier
    from scail.config import RECIPES, Experiment, Recipe, Schedule, recipes
    from scail.datasets import Dataset, load_dataset
    from scail.exemplars import Memory, herding_order, random_order
    from scail.heads.evidence import Evidence
    from scail.heads.evidence_of import evidence_of
    from scail.heads.linear_head import LinearHead
    from scail.heads.scail import scale_past_weights
    from scail.methods import METHODS, Method
    from scail.report.write import write_report
    from scail.results.results import Results
    from scail.stream import State, class_order, split_into_states

__version__ = "0.2.0"

_HOMES = {
    "IncrementalClassifier": "classifier.incremental_classifier", "learn_into": "classifier.in_folder",
    "Dataset": "datasets", "load_dataset": "datasets", "Memory": "exemplars", "herding_order": "exemplars",
    "random_order": "exemplars", "Evidence": "heads", "LinearHead": "heads", "scale_past_weights": "heads",
    "METHODS": "methods", "Method": "methods", "Experiment": "config", "Schedule": "config", "Recipe": "config",
    "RECIPES": "config", "run_experiment": "benchmark.runner", "Results": "results.results",
    "write_report": "report.write", "evidence_of": "heads",
    "State": "stream", "class_order": "stream", "split_into_states": "stream",
}  # fmt: skip

__all__ = [
    "METHODS", "RECIPES", "Dataset", "Evidence", "Experiment", "IncrementalClassifier", "LinearHead", "Memory",
    "Method", "Recipe", "Results", "Schedule", "State", "class_order", "evaluation", "evidence_of", "heads",
    "herding_order", "learn_into", "load_dataset", "random_order", "recipes", "run_experiment", "scale_past_weights",
    "split_into_states", "write_report",
]  # fmt: skip
_MODULES = {"evaluation": "evaluation", "heads": "heads", "recipes": "config.recipes"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"scail.{_MODULES[name]}")
    if name in _HOMES:
        return getattr(import_module(f"scail.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'scail' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
