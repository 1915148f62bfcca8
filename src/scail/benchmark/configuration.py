"""An experiment with everything settled: data loaded, states cut, memory and methods fixed."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import torch

from scail.config import Experiment
from scail.config.memory_size import MemorySize, memory_size
from scail.datasets import Dataset, load_dataset
from scail.methods import choose_methods
from scail.methods.table import SCAIL_TABLE, Table, settled_own, table_of
from scail.networks.network import create_network, describe_network
from scail.networks.precision import used_precision
from scail.results.archive import Pair
from scail.results.summary import AVERAGING
from scail.runtime.devices import check_devices
from scail.runtime.seeds import generator_for
from scail.stream import State, class_order, split_into_states
from scail.training import Trainer


@dataclass(frozen=True)
class Configuration:
    """An experiment, settled; perhaps one of many."""

    experiment: Experiment
    dataset: Dataset
    order: tuple[int, ...]
    """The classes of the data set, in order of arrival."""
    states: tuple[State, ...]
    memory: int
    """B as a number of images, once all classes are there."""
    methods: tuple[str, ...]
    network: dict[str, int]
    """Feature size, parameters and floating-point operations of the network with all classes."""
    notes: tuple[str, ...]
    table: Table = SCAIL_TABLE
    """What its methods mean: scail's own, and those that the experiment brings."""
    per_class: int | None = None
    """How many exemplars each class keeps, where their number does not depend on that of the classes."""
    title: str = ""
    """What tells it from the others."""
    folder: Path | None = None
    """Where its results go."""
    asked: frozenset[Pair] = frozenset()
    """The (method, selection) that were asked for; empty: all. Others are read beside them, since they cost nothing."""
    known: frozenset[Pair] = frozenset()
    """Those whose numbers are known: they are not measured again."""


def settle(experiment: Experiment, dataset: Dataset | None = None) -> Configuration:
    """Settle every open value, and check all of it before anything is trained.

    The data are loaded, unless `dataset` is given.
    """
    experiment = experiment if experiment.own_content else settled_own(experiment)
    table = table_of(experiment)
    dataset = dataset or load_dataset(experiment.dataset, experiment.data)
    if not 0 <= experiment.seed < 2**32:
        raise ValueError(f"seed is {experiment.seed}, expected 0 to {2**32 - 1}")
    precision = used_precision(experiment.machine.precision, experiment.machine.accelerator)
    experiment = experiment.but(precision=precision)
    stream, machine = experiment.stream, experiment.machine
    order = class_order(stream.class_order, dataset.class_names, experiment.seed, icarl=dataset.icarl)
    first = (len(order) + 1) // 2 if stream.first_state == "half" else stream.first_state
    states = split_into_states(dataset, stream.states, order, first)
    if len(states) < 2:
        raise ValueError("1 state: an incremental run needs at least 2 (Full is the training on all classes at once)")
    size = memory_of(experiment, dataset)
    memory = size.images
    if machine.threads < 1:
        raise ValueError(f"threads is {machine.threads}, expected 1 or more")
    described = dict(_described(experiment.recipe.network, len(order), *dataset.shape))
    check_devices(machine)
    named = tuple(table.split(name)[0] for name in experiment.methods)
    methods, notes = choose_methods(named, memory, table.methods)
    methods, left_out = _without_unfit(methods, named, states, memory, table, dataset)
    notes = (*dataset.notes, *notes, *left_out, *note_on_nothing(experiment, dataset))
    notes = (*notes, *_notes_on_memory(methods, memory, states[-1], table))
    return Configuration(experiment, dataset, order, states, memory, methods, described, notes, table, size.per_class)


def memory_of(experiment: Experiment, dataset: Dataset) -> MemorySize:
    """B on this data set."""
    asked = experiment.exemplars.memory
    return memory_size(asked, len(dataset.train), len(dataset.class_names), prod(dataset.shape))


def note_on_nothing(experiment: Experiment, dataset: Dataset) -> list[str]:
    """What to say where so little memory was asked for that it comes to no image."""
    asked, classes = str(experiment.exemplars.memory), len(dataset.class_names)
    if memory_of(experiment, dataset).images or not re.search("[1-9]", asked):
        return []
    return [
        f"a memory of {asked} comes to no image here ({len(dataset.train)} training images): nothing is kept. "
        f"A memory of {classes} keeps one of each class, 20/class keeps twenty"
    ]


def _without_unfit(
    methods: tuple[str, ...], named: tuple[str, ...], states: tuple[State, ...], memory: int, table: Table,
    dataset: Dataset,
) -> tuple[tuple[str, ...], list[str]]:  # fmt: skip
    """The methods whose trainers have enough classes at hand in every state, and images that they can do with; and
    notes on the others."""
    notes = []
    for name in methods:
        alone = memory == 0 or table.methods[name].without_memory
        smallest = min((s for s in states if s.index == 0 or alone), key=lambda s: len(s.class_names))
        hindered = _what_hinders(table.methods[name].kind, smallest, dataset)
        if hindered is None:
            continue
        reason, advice = hindered
        if name in named:
            raise ValueError(f"method {name}: {reason}; leave it out, or {advice}")
        methods = tuple(m for m in methods if m != name)
        notes.append(f"{table.methods[name].label} is left out: {reason}")
    return methods, notes


def _what_hinders(kind: type[Trainer], smallest: State, dataset: Dataset) -> tuple[str, str] | None:
    """Why a trainer cannot do here, and what to do; None: it can."""
    if len(smallest.class_names) < kind.least_classes:
        return f"in state {smallest.index} only one class is at hand, and it needs two", "use larger states"
    side, (_, height, width) = kind.most_side, dataset.shape
    if side is not None and (dataset.on_disk or max(height, width) > side):
        where = "read from disk" if dataset.on_disk else "in memory"
        reason = f"images are {height} x {width} pixels, {where}, and it needs {side} x {side} at most, in memory"
        return reason, f"scale images to {side} pixels"
    return None


def _notes_on_memory(methods: tuple[str, ...], memory: int, last: State, table: Table) -> list[str]:
    notes = []
    if 0 < memory < last.num_classes:
        notes.append(
            f"memory of {memory} images for {last.num_classes} classes: in the end the earliest {memory} keep one. "
            f"A memory of {last.num_classes} keeps one of each, 20/class keeps twenty"
        )
    notes += [
        f"{table.methods[name].label}: with a memory of {memory} images for {last.past_classes} past classes nothing "
        "can be held out in the last states"
        for name in methods
        if table.methods[name].kind.holds_out and memory <= last.past_classes
    ]
    return notes


@lru_cache(maxsize=16)  # the configurations of a grid have few networks
def _described(name: str, classes: int, channels: int, height: int, width: int) -> dict[str, int]:
    network = create_network(name, channels, classes, generator_for(0, "described"))
    return describe_network(network, height, width)


def describe(configuration: Configuration) -> str:
    """One line on what will be run."""
    data, experiment, network = configuration.dataset, configuration.experiment, configuration.network
    shape = " x ".join(map(str, data.shape))
    sizes = sorted({len(state.class_names) for state in configuration.states})
    new = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    each = "" if configuration.per_class is None else f", {configuration.per_class} of each class"
    return (
        f"{data.name}: {len(data.class_names)} classes, {len(data.train)} training and {len(data.test)} test images "
        f"({data.split}) of {shape}; {len(configuration.states)} states of {new} new classes, "
        f"memory of {configuration.memory} images{each}; "
        f"{experiment.recipe.network}: {network['feature_size']} features, {network['parameters']:,} parameters, "
        f"{network['flops'] / 1e6:.1f} MFLOPs an image; precision {experiment.machine.precision}"
    )


def provenance_of(configuration: Configuration, device: str) -> dict[str, Any]:
    """What a number needs beside it to mean something."""
    experiment = configuration.experiment
    names = [name for state in configuration.states for name in state.class_names]
    return {
        "scail": version("scail"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device,
        "precision": experiment.machine.precision,
        "threads": experiment.machine.threads,
        "dataset": configuration.dataset.name,
        "dataset_fingerprint": configuration.dataset.fingerprint,
        "split": configuration.dataset.split,
        "class_order_hash": hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16],
        "recipe": experiment.recipe.name,
        "averaging": AVERAGING,
    } | ({"ranks": experiment.machine.ranks} if experiment.machine.ranks > 1 else {})


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
