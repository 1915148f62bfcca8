"""A trajectory: a chain of states that one trainer goes through, and the methods that are read from it.

The key of a state is a chain: the previous state's key, the data of the new classes, the trainer's settings, seed,
threads, device, precision and versions (they change bits), and, from state 1 on, how exemplars are chosen and how many.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from scail.benchmark.configuration import Configuration
from scail.config import Schedules, Select
from scail.datasets.dataset import Dataset, fingerprint_of
from scail.datasets.images.batches import Augmentation
from scail.exemplars import SELECTION_VERSION, Selection, places
from scail.methods.table import Table
from scail.networks.network import network_version
from scail.networks.precision import FULL
from scail.storage.entry import key_of
from scail.stream import State, split_into_states
from scail.training import Joint, Trainer, trainer_of
from scail.training.rates import soonest
from scail.training.trainer import check_settings

Device = tuple[str, str]
"""Type and kind of a device: other kinds add up in another order."""
Reading = tuple[str, str | None, int, tuple[str, ...]]
"""Trainer, selection, memory and methods: what a trajectory is of its configuration."""


@dataclass(frozen=True)
class Training:
    """What training one state takes, at most."""

    epochs: int
    passes: int
    """Images that it goes through."""
    looks: int
    """Images that are only looked at, when it has ended."""
    may_end: bool
    """Whether it ends before, when its loss stops falling."""
    kind: str
    """What tells trainings of its kind from others; see `kind_of_training`."""
    taught: int = 0
    """Images that a teacher looks at meanwhile."""
    least: float = 1.0
    """Which part of this it takes at least."""


def kind_of_training(dataset: str, settings: Mapping[str, object]) -> str:
    """Data set and settings of a training, whatever its classes, seed and memory."""
    return json.dumps([dataset, settings], sort_keys=True)


@dataclass(frozen=True)
class Trajectory:
    """One trajectory, from the plan to the worker to the results."""

    configuration: Configuration
    """The configuration that it is of; the first, where several read it."""
    trainer: str
    """A name of `TRAINERS`, or of a trainer of one's own."""
    select: str | None
    memory: int
    methods: tuple[str, ...]
    """The methods that are read from it."""
    readers: tuple[int, ...] = (0,)
    """Which of the configurations at hand read it: one without a memory, or Full, serves several."""
    keys: tuple[str, ...] = ()
    """The keys of its states, where they were worked out."""

    @property
    def name(self) -> str:
        """The trainer and its exemplars, as a reader knows them."""
        if self.kind.at_once:
            return self.kind.title
        return f"{self.kind.title}, {f'{self.select} exemplars' if self.select else 'no memory'}"

    @property
    def title(self) -> str:
        """Its name; of many configurations, with the one that it is of."""
        of, more = self.configuration.title, len(self.readers) - 1
        return f"{of}{f' and {more} more' if more else ''}: {self.name}" if of else self.name

    @property
    def table(self) -> Table:
        """What its methods mean."""
        return self.configuration.table

    @cached_property
    def kind(self) -> type[Trainer]:
        """How it trains."""
        return self.table.trainers[self.trainer]

    @property
    def selection(self) -> Select | Selection:
        """How its exemplars are chosen, if it has any."""
        return self.table.selection(self.select or "random")

    @cached_property
    def training(self) -> Trainer:
        """The trainer, with the experiment's settings."""
        return self._trainer(self.kind)

    def _trainer(self, kind: type[Trainer], schedules: Schedules | None = None) -> Trainer:
        experiment = self.configuration.experiment
        total = len(self.configuration.dataset.class_names)
        with self.table.told():
            made = trainer_of(kind, experiment.recipe, schedules or experiment.trained_schedules, total)
            check_settings(made)
        return made

    @cached_property
    def own_content(self) -> list[str]:
        """What tells a trainer of one's own apart; empty: it is one of scail's."""
        return self.table.content(trainer=self.trainer)

    @cached_property
    def _beginning(self) -> Trainer:
        """The trainer of state 0.

        One of one's own whose settings there are those of `Joint` begins as fine tuning does: `Joint` itself trains the
        state, so that it can be shared, whatever the file says.
        """
        if self.own_content and self.kind.extract is Trainer.extract:
            joint = self._trainer(Joint)
            if self.training.settings(0) == joint.settings(0):
                return joint
        return self.training

    def training_at(self, state: int) -> Trainer:
        """The trainer of this state."""
        return self.training if state else self._beginning

    def settings(self, state: int) -> dict[str, object]:
        """What decides the training of this state; of a trainer of one's own, its file too."""
        own = {"own": self.own_content} if self.own_content and self.training_at(state) is self.training else {}
        return self.training_at(state).settings(state) | own

    @cached_property
    def states(self) -> tuple[State, ...]:
        """Its states; Full is one with all classes."""
        if not self.kind.at_once:
            return self.configuration.states
        return split_into_states(self.configuration.dataset, 1, self.configuration.order)

    @property
    def augmentation(self) -> Augmentation:
        """What happens to its training images."""
        return Augmentation(self.configuration.experiment.recipe.padding, self.configuration.dataset.mirror)

    @cached_property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """For each state, how many images of each class its training has: exemplars of past ones, all of new ones."""
        found, seen = [], list[int]()
        for state in self.states:
            past = len(seen)
            kept = [*map(min, places(self.budget(past), past), seen)] if seen else []
            seen += torch.bincount(state.train_labels - past, minlength=len(state.class_names)).tolist()
            found.append((*kept, *seen[past:]))
        return tuple(found)

    @cached_property
    def epochs(self) -> tuple[int, ...]:
        """Epochs of each state, at most."""
        each = zip(self.states, self.counts, strict=True)
        return tuple(
            trainer.epochs(s.index, trainer.epoch_images(s.index, of, s.past_classes))
            for trainer, s, of in ((self.training_at(s.index), s, of) for s, of in each)
        )

    @cached_property
    def passes(self) -> tuple[int, ...]:
        """For each state, how many images its training goes through, at most: what it costs."""
        return tuple(
            self._passes(self.training_at(s.index), s, of) for s, of in zip(self.states, self.counts, strict=True)
        )

    def _passes(self, trainer: Trainer, state: State, counts: Sequence[int]) -> int:
        past = state.past_classes
        return trainer.passes(state.index, counts, past, (self.budget(past), self.budget(state.num_classes)))

    @cached_property
    def least(self) -> tuple[float, ...]:
        """For each state, which part of these its training goes through at least."""
        if not self._may_end:
            return (1.0,) * len(self.states)
        schedules = self.configuration.experiment.trained_schedules
        shortest = self._trainer(self.kind, Schedules({name: soonest(of) for name, of in schedules.items()}))
        each = zip(self.states, self.counts, self.passes, strict=True)
        return tuple(self._passes(shortest, state, counts) / max(1, passes) for state, counts, passes in each)

    def budget(self, classes: int) -> int:
        """B when so many classes are known."""
        each = self.configuration.per_class
        return self.memory if each is None or self.memory == 0 else each * classes

    @property
    def looks(self) -> tuple[int, ...]:
        """For each state, images that a network only looks at for their features."""
        return tuple(map(sum, self.counts))

    @property
    def taught(self) -> tuple[int, ...]:
        """For each state, images that a teacher looks at."""
        each = zip(self.states, self.epochs, self.passes, strict=True)
        return tuple(p if self.kind.taught and epochs and s.index else 0 for s, epochs, p in each)

    @property
    def tests(self) -> int:
        """Test images that are looked at, over all states."""
        new = [len(state.test_indices) for state in self.states]
        return sum(n * (len(new) - k) for k, n in enumerate(new))

    @property
    def trainings(self) -> dict[str, Training]:
        """The states that are trained, by their keys; DeeSIL's later ones are not."""
        name, may_end = self.configuration.dataset.name, self._may_end
        known = zip(
            self.keys, self.states, self.epochs, self.passes, self.looks, self.taught, self.least, strict=True
        )  # fmt: skip
        return {
            key: Training(
                epochs, passes, looks, may_end, kind_of_training(name, self.settings(state.index)), taught, least
            )
            for key, state, epochs, passes, looks, taught, least in known
            if epochs
        }

    @property
    def _may_end(self) -> bool:
        """Whether its trainings end when their loss stops falling."""
        schedules = self.configuration.experiment.trained_schedules
        return any(schedules[name].decay == "settle" for name in self.kind.schedules if name in schedules.trainings)

    @property
    def reading(self) -> Reading:
        """What it is of its configuration; a worker process makes the rest of it anew."""
        return self.trainer, self.select, self.memory, self.methods

    def record(self) -> dict[str, Any]:
        """What a run's config.json says of it."""
        return {
            "title": self.name, "trainer": self.trainer, "select": self.select, "memory": self.memory,
            "methods": self.methods, "schedules": self.kind.schedules,
        }  # fmt: skip


def trajectories_in(configuration: Configuration) -> tuple[Trajectory, ...]:
    """The trajectories that a configuration's methods need, each with the methods that are read from it."""
    found: dict[tuple[str, str | None, int], list[str]] = {}
    for name in configuration.methods:
        method = configuration.table.methods[name]
        no_memory = method.without_memory or method.ignores_memory or configuration.memory == 0
        if method.kind.at_once or no_memory:
            found.setdefault((method.trainer_name, None, 0), []).append(name)
            continue
        for select in _selects(name, configuration):
            found.setdefault((method.trainer_name, select, configuration.memory), []).append(name)
    unknown = (
        Trajectory(configuration, *of, tuple(name for name in names if (name, of[1]) not in configuration.known))
        for of, names in found.items()
    )
    # Longest first, so that processes end together.
    return tuple(
        sorted(
            (one for one in unknown if one.methods),
            key=lambda one: (one.trainer != "fine_tune" or one.select == "herding", one.trainer != "joint"),
        )
    )


def _selects(name: str, configuration: Configuration) -> tuple[str, ...]:
    """How exemplars are chosen for this method: as named with it, else as the experiment says, else its own way."""
    experiment = configuration.experiment
    named = [select for asked, select in map(configuration.table.split, experiment.methods) if asked == name]
    if named and None not in named:
        return tuple(dict.fromkeys(select for select in named if select))
    own = configuration.table.methods[name].select_name
    return experiment.exemplars.select or ((own,) if own else ("random", "herding"))


def data_of_state(dataset: Dataset, state: State) -> str:
    """The fingerprint of a state's own training images."""
    return fingerprint_of(dataset.train.images[state.train_indices], state.train_labels)


def keys_of(trajectory: Trajectory, device: Device, data: Callable[[State], str]) -> tuple[str, ...]:
    """The keys that its states will have: nothing is trained. `data`: a state's fingerprint."""
    keys = list[str]()
    for state in trajectory.states:
        keys.append(key_of(facts_of(trajectory, state, keys, data(state), device)))
    return tuple(keys)


def facts_of(
    trajectory: Trajectory, state: State, keys_before: Sequence[str], data: str, device: Device
) -> dict[str, object]:
    """Everything that decides the bits of this state, and nothing else."""
    experiment, machine = trajectory.configuration.experiment, trajectory.configuration.experiment.machine
    facts: dict[str, object] = {
        "previous": keys_before[-1] if keys_before else "",
        "data": data,
        "trainer": trajectory.settings(state.index),
        "augmentation": [trajectory.augmentation.padding, trajectory.augmentation.mirror],
        "seed": experiment.seed,
        "threads": machine.threads,
        "device": list(device),
        "network": network_version(experiment.recipe.network),
        "precision": machine.precision,
        "torch": torch.__version__,
    }
    if machine.precision != FULL:
        facts |= {"features": "float32"}  # they were taken in the precision of the training once
    if machine.ranks > 1:
        facts |= {"ranks": machine.ranks, "sync_batch_norm": machine.sync_batch_norm}
    if state.index or trajectory.training.from_memory:
        facts |= {"select": trajectory.select, "memory": asked_memory(trajectory), "selection": SELECTION_VERSION}
        if own := trajectory.table.content(select=trajectory.select):
            facts |= {"own selection": own}
    elif trajectory.training.holds_out:
        facts |= {"memory": asked_memory(trajectory)}  # as many images are set aside as it will keep
    return facts


def asked_memory(trajectory: Trajectory) -> int | str:
    """B as a key has it: images of each class, where that is what was asked for."""
    each = trajectory.configuration.per_class if trajectory.memory else None
    return trajectory.memory if each is None else f"{each}/class"
