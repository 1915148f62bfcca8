"""What has to be trained for many configurations: each trajectory once, counted before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest

from scail.benchmark.configuration import Configuration
from scail.benchmark.prices import Prices
from scail.benchmark.trajectory import Device, Training, Trajectory, data_of_state, keys_of, trajectories_in
from scail.runtime.devices import device_of, make_fabric
from scail.stream import State


def trajectories_of(configurations: Sequence[Configuration]) -> list[Trajectory]:
    """Every trajectory that the configurations read, once, with its keys, in the order in which they are best run."""
    found: dict[Hashable, Trajectory] = {}
    keys = _Keys()
    for number, configuration in enumerate(configurations):
        # The same images and settings, and heads with the same options: then the rows are the same, too.
        rest = configuration.experiment.but(states=0, memory=0, methods=(), select=None)
        for one in trajectories_in(configuration):
            one = replace(one, readers=(number,), keys=keys.of(one))
            same = (one.keys, one.reading, rest)
            before = found.get(same)
            found[same] = replace(before, readers=(*before.readers, number)) if before else one
    return in_turn(found.values())


def in_turn(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """One of each that begin alike, then a second of each, ...: processes seldom wait for the same state 0."""
    groups: dict[str, list[Trajectory]] = {}
    for one in trajectories:
        groups.setdefault(one.keys[0], []).append(one)
    return [one for turn in zip_longest(*groups.values()) for one in turn if one is not None]


@dataclass
class _Keys:
    """Works out keys; the images of a state are hashed once, for all trajectories."""

    data: dict[Hashable, str] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)

    def of(self, trajectory: Trajectory) -> tuple[str, ...]:
        configuration = trajectory.configuration

        def data(state: State) -> str:
            # Two seeds have other orders: classes and their places tell the states of one data set apart.
            known = (id(configuration.dataset), state.class_names, state.past_classes)
            if known not in self.data:
                self.data[known] = data_of_state(configuration.dataset, state)
            return self.data[known]

        with trajectory.table.told():
            return keys_of(trajectory, self._device(configuration.experiment.machine.accelerator), data)

    def _device(self, accelerator: str) -> Device:
        if accelerator not in self.devices:
            self.devices[accelerator] = device_of(make_fabric(accelerator))
        return self.devices[accelerator]


Share = Callable[[Training], float | None]
"""Which part of its epochs a training will probably take, where that is known."""


@dataclass(frozen=True)
class Count:
    """What a plan says of one data set, or of all."""

    configurations: int = 0
    """With each seed counted."""
    finished: int = 0
    """Of these, whose results are there: they are not run again."""
    trajectories: int = 0
    alone: int = 0
    """Trainings, were each method and selection trained by itself; the very same trajectory of a method once."""
    shared: int = 0
    """Trainings when every state is trained once."""
    there: int = 0
    """Of these, already trained: in the store, or needed by finished configurations only."""
    epochs: int = 0
    """Epochs still to be trained."""
    passes: int = 0
    """Images that these go through."""
    looks: int = 0
    """Images that are only looked at: for features, by teachers, and to test."""
    seconds: float = 0.0
    """How long one process would take; at most, where trainings may end before."""
    least: float = 0.0
    """How long it takes at least: every training ends as soon as it may."""
    likely: float = 0.0
    """How long it will probably take."""
    may_end: int = 0
    """Trainings still to be done that may end before."""
    unlike: int = 0
    """Of these, such as none was ever finished: in what is likely they count to their ends."""

    def __add__(self, other: Count) -> Count:
        return Count(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Count)})


def plan_of(
    configurations: Sequence[Configuration],
    stored: Collection[str] = (),
    finished: Collection[int] = (),
    prices: Callable[[Configuration], Prices] = lambda configuration: Prices(),
    share: Share = lambda training: None,
) -> dict[str, Count]:
    """Per data set what has to be done: `stored` keys and `finished` configurations need nothing.

    `prices`: what trainings of a configuration cost here. `share`: which part of its epochs one will probably take.
    """
    found = trajectories_of(configurations)
    by_data: dict[str, dict[int, Configuration]] = {}
    for number, one in enumerate(configurations):
        by_data.setdefault(one.experiment.dataset, {})[number] = one
    return {name: _count(mine, found, stored, finished, prices, share) for name, mine in by_data.items()}


def _count(
    mine: dict[int, Configuration], found: Sequence[Trajectory], stored: Collection[str], finished: Collection[int],
    prices: Callable[[Configuration], Prices], share: Share,
) -> Count:  # fmt: skip
    numbers = set(mine)
    ours = [one for one in found if numbers & set(one.readers)]
    trainings = {key: (one, training) for one in ours for key, training in one.trainings.items()}
    needed = {key for one in ours if set(one.readers) - set(finished) for key in one.trainings}
    todo = [trainings[key] for key in trainings if key in needed and key not in stored]
    looked = [(one, training.looks) for one, training in todo]
    looked += [(one, one.tests) for one in ours if set(one.readers) - set(finished)]
    looking = sum(looks * prices(one.configuration).looking for one, looks in looked)
    most = [_seconds(training, prices(one.configuration)) for one, training in todo]
    parts = [share(training) if training.may_end else 1.0 for _, training in todo]
    return Count(
        configurations=len(mine),
        finished=len(numbers & set(finished)),
        trajectories=len(ours),
        alone=_trained_alone(mine, ours),
        shared=len(trainings),
        there=len(trainings) - len(todo),
        epochs=sum(training.epochs for _, training in todo),
        passes=sum(training.passes for _, training in todo),
        looks=sum(looks for _, looks in looked) + sum(training.taught for _, training in todo),
        seconds=sum(most) + looking,
        least=sum(t * training.least for t, (_, training) in zip(most, todo, strict=True)) + looking,
        likely=sum(t * (1.0 if part is None else part) for t, part in zip(most, parts, strict=True)) + looking,
        may_end=sum(training.may_end for _, training in todo),
        unlike=parts.count(None),
    )


def _seconds(training: Training, prices: Prices) -> float:
    """Of the training itself, with its teacher, to its limit."""
    trained = training.passes * prices.training + training.taught * prices.looking
    return trained + training.epochs * prices.epoch


def _trained_alone(configurations: dict[int, Configuration], found: Sequence[Trajectory]) -> int:
    """Each (method, selection) that was asked for, with all states of its trajectory."""
    trained = {
        (method, one.keys): len(one.trainings)
        for one in found
        for method in one.methods
        for asked in (configurations[i].asked for i in one.readers)
        if not asked or (method, one.select) in asked
    }
    return sum(trained.values())
