"""What has to be trained for many configurations: each trajectory once, counted before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from pathlib import Path

from scail.benchmark.configuration import Line, Setup
from scail.benchmark.measuring import chain_of
from scail.benchmark.states import Machine, data_of_state, keys_of, machine_of
from scail.benchmark.workers import Job
from scail.runtime.devices import make_fabric
from scail.stream import State


@dataclass(frozen=True)
class Cell:
    """One configuration among many, and where its results go."""

    setup: Setup
    folder: Path
    title: str = ""
    rows: frozenset[tuple[str, str | None]] = frozenset()
    """The (method, selection) that were asked for; empty: all. Others are read beside them, since they cost nothing."""


@dataclass(frozen=True)
class Trajectory:
    """A trajectory that is to be run, with the keys and the cost of its states."""

    setup: Setup
    line: Line
    keys: tuple[str, ...]
    epochs: tuple[int, ...]
    passes: tuple[int, ...]
    """Images that the training of each state goes through."""
    cells: tuple[int, ...]
    """Which cells read it: one without a memory, or Full, serves several."""

    @property
    def trainings(self) -> dict[str, tuple[int, int]]:
        """Keys of the states that are trained, with epochs and images; DeeSIL's later ones are not."""
        known = zip(self.keys, self.epochs, self.passes, strict=True)
        return {key: (epochs, passes) for key, epochs, passes in known if epochs}


def trajectories_of(cells: Sequence[Cell]) -> list[Trajectory]:
    """Every trajectory that the cells read, once, in the order in which they are best run."""
    found: dict[Hashable, Trajectory] = {}
    keys = _Keys()
    for number, cell in enumerate(cells):
        for line in cell.setup.lines:
            one = _trajectory(cell.setup, line, keys, number)
            # The same images and settings, and heads with the same options: then the rows are the same, too.
            rest = replace(cell.setup.experiment, states=0, memory=0, methods=(), select=None)
            same = (one.keys, line, rest)
            before = found.get(same)
            found[same] = replace(before, cells=(*before.cells, number)) if before else one
    return in_turn(found.values())


def in_turn(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """One of each that begin alike, then a second of each, ...: processes seldom wait for the same state 0."""
    groups: dict[str, list[Trajectory]] = {}
    for one in trajectories:
        groups.setdefault(one.keys[0], []).append(one)
    return [one for turn in zip_longest(*groups.values()) for one in turn if one is not None]


def _trajectory(setup: Setup, line: Line, keys: _Keys, cell: int) -> Trajectory:
    chain = chain_of(setup, line)
    epochs = tuple(chain.trainer.epochs(state.index) for state in chain.states)
    passes = tuple(Job(0, "", setup, line).image_passes())
    return Trajectory(setup, line, keys.of(setup, line), epochs, passes, (cell,))


@dataclass
class _Keys:
    """Works out keys; the images of a state are hashed once, for all trajectories."""

    data: dict[Hashable, str] = field(default_factory=dict)
    machines: dict[Hashable, Machine] = field(default_factory=dict)

    def of(self, setup: Setup, line: Line) -> tuple[str, ...]:
        def data(state: State) -> str:
            # Two seeds have other orders: classes and their places tell the states of one data set apart.
            known = (id(setup.dataset), state.class_names, state.past_classes)
            if known not in self.data:
                self.data[known] = data_of_state(setup.dataset, state)
            return self.data[known]

        return tuple(keys_of(chain_of(setup, line), self._machine(setup), data))

    def _machine(self, setup: Setup) -> Machine:
        experiment = setup.experiment
        known = (experiment.accelerator, experiment.threads, experiment.ranks, experiment.sync_batch_norm)
        if known not in self.machines:
            fabric = make_fabric(experiment.accelerator)
            self.machines[known] = machine_of(fabric, experiment.threads, experiment.ranks, experiment.sync_batch_norm)
        return self.machines[known]


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
    seconds: float = 0.0
    """How long one process would take."""

    def __add__(self, other: Count) -> Count:
        return Count(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Count)})


def plan_of(
    cells: Sequence[Cell],
    stored: Collection[str] = (),
    finished: Collection[int] = (),
    seconds: Callable[[Setup], float] = lambda setup: 0.0,
) -> dict[str, Count]:
    """Per data set what has to be done: `stored` keys and `finished` cells need nothing, an image takes `seconds`."""
    found = trajectories_of(cells)
    return {
        name: _count([(i, cells[i]) for i in range(len(cells)) if _data_of(cells[i]) == name], found, stored, finished,
                     seconds)
        for name in dict.fromkeys(map(_data_of, cells))
    }  # fmt: skip


def _data_of(cell: Cell) -> str:
    return cell.setup.experiment.dataset


def _count(
    mine: Sequence[tuple[int, Cell]], found: Sequence[Trajectory], stored: Collection[str], finished: Collection[int],
    seconds: Callable[[Setup], float],
) -> Count:  # fmt: skip
    numbers = {i for i, _ in mine}
    ours = [one for one in found if numbers & set(one.cells)]
    trainings = {key: (one, *cost) for one in ours for key, cost in one.trainings.items()}
    needed = {key for one in ours if set(one.cells) - set(finished) for key in one.trainings}
    todo = [trainings[key] for key in trainings if key in needed and key not in stored]
    return Count(
        configurations=len(mine),
        finished=len(numbers & set(finished)),
        trajectories=len(ours),
        alone=_trained_alone(dict(mine), ours),
        shared=len(trainings),
        there=len(trainings) - len(todo),
        epochs=sum(epochs for _, epochs, _ in todo),
        passes=sum(passes for _, _, passes in todo),
        seconds=sum(passes * seconds(one.setup) for one, _, passes in todo),
    )


def _trained_alone(cells: dict[int, Cell], found: Sequence[Trajectory]) -> int:
    """Each (method, selection) that was asked for, with all states of its trajectory."""
    trained = {
        (method, one.keys): len(one.trainings)
        for one in found
        for method in one.line.methods
        if any(not cells[i].rows or (method, one.line.select) in cells[i].rows for i in one.cells)
    }
    return sum(trained.values())
