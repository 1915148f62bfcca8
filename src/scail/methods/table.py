"""The table of methods that an experiment sees: scail's own, and those of the files and packages that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import get_args

from scail.config import Experiment, Select
from scail.exemplars import Selection
from scail.methods import METHODS, Method, split_name
from scail.methods.own_methods import OwnMethods, own_methods
from scail.methods.source import told_by_line
from scail.training import TRAINERS, Trainer


@dataclass(frozen=True)
class Table:
    """Methods, trainers and selections by name."""

    methods: Mapping[str, Method]
    own: tuple[OwnMethods, ...] = ()
    """What came from files and packages."""

    @property
    def trainers(self) -> Mapping[str, type[Trainer]]:
        """Every trainer by its name."""
        return {**TRAINERS, **{name: kind for one in self.own for name, kind in one.trainers.items()}}

    def selection(self, name: str) -> Select | Selection:
        """The selection of this name."""
        known: tuple[Select, ...] = get_args(Select)
        for one_of_ours in known:
            if name == one_of_ours:
                return one_of_ours
        (own,) = (one.selections[name] for one in self.own if name in one.selections)
        return own

    def split(self, name: str) -> tuple[str, str | None]:
        """A method as it is asked for: its name, and the selection where one is named with it."""
        method, _, select = name.partition(":")
        own = any(select in one.selections for one in self.own)
        return (method, select) if own else split_name(name)

    def content(self, *, trainer: str = "", select: str | None = None) -> list[str]:
        """What tells the file apart that the trainer, or the selection, is from; none where it is one of scail's."""
        return [one.content for one in self.own if trainer in one.trainers or select in one.selections]

    @property
    def contents(self) -> dict[str, str]:
        """For each method of one's own, what tells its file apart."""
        return {name: one.content for one in self.own for name in one.methods}

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors in files of one's own are told with their lines."""
        with told_by_line(frozenset(path for one in self.own for path in one.source.paths)):
            yield


SCAIL_TABLE = Table(METHODS)
"""Without anything of one's own."""


def table_of(experiment: Experiment) -> Table:
    """The table that this experiment sees. Files that are not as they were when it was settled are an error."""
    found = tuple(own_methods(place) for place in experiment.own_methods)
    expected = experiment.own_content or tuple(one.content for one in found)
    for place, one, content in zip(experiment.own_methods, found, expected, strict=True):
        if one.content != content:
            raise ValueError(
                f"{place}: is not what it was when this run began: start the same command again. On several machines "
                "all of them need the same files"
            )
    methods = dict(METHODS)
    for one in found:
        for name, method in one.methods.items():
            _check_free(one, name, method, methods)
            methods[name] = method
    _check_apart(found)
    return Table(methods, found)


def _check_free(one: OwnMethods, name: str, method: Method, taken: Mapping[str, Method]) -> None:
    """Neither the name nor the label is another method's."""
    if name in taken:
        raise ValueError(f"{one.place_of(name)}: the name {name!r} is that of {taken[name].label}; choose another")
    labels = {f"{other.label}{'' if other.in_paper else '*'}": name for name, other in taken.items()}
    if label := labels.get(f"{method.label}*"):
        raise ValueError(f"{one.place_of(name)}: the label {method.label!r} is that of {label}; choose another")


def _check_apart(found: tuple[OwnMethods, ...]) -> None:
    """No two files have a trainer or a selection of the same name."""
    seen = dict[str, OwnMethods]()
    for one in found:
        for name in (*one.trainers, *one.selections):
            if name in seen:
                raise ValueError(f"{one.place} and {seen[name].place} both have a {name}; give one another name")
            seen[name] = one


def settled_own(experiment: Experiment) -> Experiment:
    """With the places of its files in full, and their contents: what other processes are to find there."""
    own = tuple(own_methods(place) for place in experiment.own_methods)
    return experiment.but(own_methods=tuple(one.place for one in own), own_content=tuple(one.content for one in own))
