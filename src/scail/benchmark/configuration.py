"""A configuration with everything settled: data, states, memory, and the trajectories that its methods need."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from scail.config.recipes import Experiment, Select
from scail.datasets import Dataset, DataSettings, load_dataset
from scail.methods import METHODS, choose_methods, split_name
from scail.networks.network import create_network, describe_network
from scail.results.run_directory import AVERAGING
from scail.runtime.devices import check_devices
from scail.runtime.seeds import generator_for
from scail.stream import State, class_order, split_into_states


@dataclass(frozen=True)
class Line:
    """A trajectory of the experiment, and the methods that are read from it."""

    title: str
    trainer: str
    select: Select | None
    memory: int
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Setup:
    """An experiment with everything settled: data loaded, states cut, memory and methods fixed."""

    experiment: Experiment
    dataset: Dataset
    states: tuple[State, ...]
    memory: int
    network: dict[str, int]
    """Feature size, parameters and floating-point operations of the network with all classes."""
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


def set_up(experiment: Experiment, dataset: Dataset | None = None) -> Setup:
    """Settle every open value, and check all of it before anything is trained.

    The data are loaded, unless `dataset` is given.
    """
    dataset = dataset or load_dataset(experiment.dataset, data_settings(experiment))
    if not 0 <= experiment.seed < 2**32:
        raise ValueError(f"seed is {experiment.seed}, expected 0 to {2**32 - 1}")
    order = class_order(experiment.class_order, dataset.class_names, experiment.seed, icarl=dataset.icarl)
    first = (len(order) + 1) // 2 if experiment.first_state == "half" else experiment.first_state
    states = split_into_states(dataset, experiment.states, order, first)
    if len(states) < 2:
        raise ValueError("1 state: an incremental run needs at least 2 (Full is the training on all classes at once)")
    memory = memory_size(experiment.memory, len(dataset.train))
    if experiment.threads < 1:
        raise ValueError(f"threads is {experiment.threads}, expected 1 or more")
    described = dict(_described(experiment.network, len(order), *dataset.shape))
    check_devices(experiment)
    methods, notes = choose_methods(experiment.methods, memory)
    notes = (*dataset.notes, *notes)
    alone = [s.index for s in states if len(s.class_names) == 1 and (s.index == 0 or memory == 0)]
    if alone and "deesil" in methods:
        reason = f"in state {alone[0]} only one class is at hand, and an SVM needs two"
        if "deesil" in (split_name(name)[0] for name in experiment.methods):
            raise ValueError(f"method deesil: {reason}; leave it out, or use larger states")
        methods, notes = tuple(m for m in methods if m != "deesil"), (*notes, f"DeeSIL is left out: {reason}")
    if 0 < memory < len(order):
        notes += (
            f"memory of {memory} images for {len(order)} classes: in the end only the earliest {memory} keep one",
        )
    past = states[-1].past_classes
    if "bic" in methods and memory <= past:
        notes += (
            f"BiC: with a memory of {memory} images for {past} past classes nothing can be held out in the last states",
        )
    lines = _lines(methods, experiment, memory)
    return Setup(experiment, dataset, states, memory, described, lines, notes)


def data_settings(experiment: Experiment) -> DataSettings:
    """What the experiment asks of its data set."""
    return DataSettings(**{field.name: getattr(experiment, field.name) for field in fields(DataSettings)})


@lru_cache(maxsize=16)  # the configurations of a grid have few networks
def _described(name: str, classes: int, channels: int, height: int, width: int) -> dict[str, int]:
    network = create_network(name, channels, classes, generator_for(0, "described"))
    return describe_network(network, height, width)


def describe(setup: Setup) -> str:
    """One line on what will be run."""
    data, experiment, network = setup.dataset, setup.experiment, setup.network
    shape = " x ".join(map(str, data.shape))
    sizes = sorted({len(state.class_names) for state in setup.states})
    new = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return (
        f"{data.name}: {len(data.class_names)} classes, {len(data.train)} training and {len(data.test)} test images "
        f"({data.split}) of {shape}; {len(setup.states)} states of {new} new classes, memory of {setup.memory} images; "
        f"{experiment.network}: {network['feature_size']} features, {network['parameters']:,} parameters, "
        f"{network['flops'] / 1e6:.1f} MFLOPs an image"
    )


def memory_size(memory: int | str, train_images: int) -> int:
    """B as a number of images; a share is rounded down.

    >>> memory_size("0.5%", 10_000), memory_size("70", 10_000)
    (50, 70)
    """
    try:
        share = isinstance(memory, str) and memory.endswith("%")
        size = int(Fraction(str(memory)[:-1]) * train_images / 100) if share else int(memory)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"memory {memory!r}: expected a number of images, or a share as 2%") from None
    if size < 0:
        raise ValueError(f"memory is {memory}, expected 0 or more")
    return size


_TITLES = {
    "fine_tune": "FT", "balanced": "FT^BAL", "e2e": "E2E", "distill": "distillation", "bic": "BiC",
    "frozen_svm": "DeeSIL", "joint": "Full",
}  # fmt: skip


def _lines(methods: tuple[str, ...], experiment: Experiment, memory: int) -> tuple[Line, ...]:
    """The trajectories that these methods need, each with the methods that are read from it."""
    found: dict[tuple[str, Select | None, int], list[str]] = {}
    for name in methods:
        method = METHODS[name]
        if method.trainer == "joint" or method.without_memory or memory == 0:
            found.setdefault((method.trainer, None, 0), []).append(name)
            continue
        for select in _selects(name, experiment):
            found.setdefault((method.trainer, select, memory), []).append(name)
    lines = [
        Line(_title(trainer, select), trainer, select, kept, tuple(names))
        for (trainer, select, kept), names in found.items()
    ]
    # Longest first, so that processes end together.
    return tuple(
        sorted(
            lines, key=lambda line: (line.trainer != "fine_tune" or line.select == "herding", line.trainer != "joint")
        )
    )


def _selects(name: str, experiment: Experiment) -> tuple[Select, ...]:
    """How exemplars are chosen for this method: as named with it, else as the experiment says, else its own way."""
    named = [select for asked, select in map(split_name, experiment.methods) if asked == name]
    if named and None not in named:
        return tuple(dict.fromkeys(select for select in named if select))
    own = METHODS[name].select
    return experiment.select or ((own,) if own else ("random", "herding"))


def _title(trainer: str, select: Select | None) -> str:
    if trainer == "joint":
        return "Full"
    return f"{_TITLES[trainer]}, {f'{select} exemplars' if select else 'no memory'}"


def provenance_of(setup: Setup, device: str) -> dict[str, Any]:
    """What a number needs beside it to mean something."""
    experiment = setup.experiment
    names = [name for state in setup.states for name in state.class_names]
    return {
        "scail": version("scail"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device,
        "precision": experiment.precision,
        "threads": experiment.threads,
        "dataset": setup.dataset.name,
        "dataset_fingerprint": setup.dataset.fingerprint,
        "split": setup.dataset.split,
        "class_order_hash": hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16],
        "recipe": experiment.recipe,
        "averaging": AVERAGING,
    } | ({"ranks": experiment.ranks} if experiment.ranks > 1 else {})


@lru_cache(maxsize=1)
def commit_of_package() -> str | None:
    """The commit that this package is run from, with a plus where files were changed; None where it is installed."""
    place = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(place), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603

    try:
        if git("ls-files", "--error-unmatch", __file__) and (commit := git("rev-parse", "HEAD")):
            return commit + ("+" if git("status", "--porcelain", "--untracked-files=no", str(place)) else "")
    except (OSError, subprocess.SubprocessError):
        pass
    return None


def config_of(setup: Setup) -> dict[str, Any]:
    """The whole configuration, as it is written to `config.json`."""
    return {
        "experiment": asdict(setup.experiment),
        "memory": setup.memory,
        "class_order": [name for state in setup.states for name in state.class_names],
        "state_sizes": [len(state.class_names) for state in setup.states],
        "dataset": {
            "name": setup.dataset.name, "fingerprint": setup.dataset.fingerprint, "shape": setup.dataset.shape,
            "train_images": len(setup.dataset.train), "test_images": len(setup.dataset.test),
            "split": setup.dataset.split, "on_disk": not isinstance(setup.dataset.train.images, torch.Tensor),
            "notes": setup.dataset.notes,
        },
        "network": setup.network,
        "lines": [asdict(line) for line in setup.lines],
        "provenance": provenance_of(setup, "cpu" if setup.experiment.accelerator == "cpu" else "auto"),
        "command": sys.argv,
        "commit": commit_of_package(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip
