"""The store against a plain dictionary, whatever is done to it in whatever order: also by others, and half."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from scail.storage.entry import DamagedEntry
from scail.storage.holdings import Holding
from scail.storage.inspection import inspected
from scail.storage.store import Store
from tests.storage.killed import killed_before
from tests.storage.stored import entry, key

NAMES = st.sampled_from("abcd")
VALUES = st.integers(1, 9).map(float)
SIZES = st.sampled_from([1, 300, 2000])


def turn_a_bit(path: Path, where: float) -> None:
    content = bytearray(path.read_bytes())
    bit = int(where * 8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


class StoreMachine(RuleBasedStateMachine):
    """What is sound has exactly one value; what was harmed may have it, or is refused; nothing else is ever read."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="store-machine-"))
        self.root = self.place / "store"
        self.store = Store(self.root)
        self.states: dict[str, set[float]] = {}
        """By name, the values that may be read; where it was harmed also none of them."""
        self.harmed: set[str] = set()
        self.trainings: dict[str, set[float | None]] = {}
        self.strays: dict[Path, str] = {}
        self.living: dict[str, contextlib.ExitStack] = {}
        """Names whose locks another process holds."""

    def teardown(self) -> None:
        for held in self.living.values():
            held.close()
        shutil.rmtree(self.place)

    def names_of(self, held: list[Holding], kind: str) -> set[str]:
        by_key = {key(name): name for name in "abcd"}
        return {by_key[one.key] for one in held if one.kind == kind and one.key}

    def noted(self, held: list[Holding]) -> None:
        """These were removed: none of them was a living one's."""
        assert not self.names_of(held, "training") & self.living.keys()
        assert not self.names_of(held, "half") & self.living.keys()
        for name in self.names_of(held, "state"):
            self.states.pop(name)
            self.harmed.discard(name)
        for name in self.names_of(held, "training"):
            self.trainings.pop(name, None)

    def gone_with_a_write(self) -> None:
        """A write sweeps what nothing will use."""
        for name in [name for name in self.trainings if name in self.states and name not in self.living]:
            del self.trainings[name]

    @rule(name=NAMES, value=VALUES, size=SIZES)
    def save(self, name: str, value: float, size: int) -> None:
        if name in self.living:
            return  # it would wait
        self.store.save(entry(value, size, name))
        self.states[name] = {value}
        self.harmed.discard(name)
        self.gone_with_a_write()

    @rule(name=NAMES)
    def load(self, name: str) -> None:
        try:
            found = self.store.load(key(name))
        except DamagedEntry as damage:
            assert name in self.harmed, damage
            return
        if found is None:
            assert name not in self.states
        else:
            assert found.facts["value"] in self.states[name]
            assert torch.equal(found.tensors["a"], torch.full_like(found.tensors["a"], found.facts["value"]))

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.store.remove(key(name))
        self.states.pop(name, None)
        self.harmed.discard(name)

    @rule(name=NAMES, file=st.sampled_from(["tensors.safetensors", "entry.json"]), where=st.floats(0, 0.999))
    def turn_a_bit(self, name: str, file: str, where: float) -> None:
        self.save(name, 1.0, 1)
        if name in self.states:
            turn_a_bit(self.root / "states" / key(name) / file, where)
            self.harmed.add(name)

    @rule(name=NAMES, where=st.floats(0, 0.999))
    def turn_a_bit_of_a_training(self, name: str, where: float) -> None:
        self.begin(name, 1.0)
        turn_a_bit(self.store.checkpoint(key(name)).stage("training").path, where)
        assert self.store.checkpoint(key(name)).stages() == [None]
        self.finish(name)

    @rule(one=NAMES, other=NAMES)
    def exchange(self, one: str, other: str) -> None:
        if {one, other} & self.living.keys():
            return  # it would wait
        for name, value in ((one, 3.0), (other, 4.0)):
            self.save(name, value, 1)
        if one != other and {one, other} <= self.states.keys():
            places = [self.root / "states" / key(name) for name in (one, other)]
            for source, target in ((places[0], self.place / "x"), places[::-1], (self.place / "x", places[1])):
                source.rename(target)
            for name in (one, other):
                self.states[name] = set()  # nothing is right for it
                self.harmed.add(name)

    @rule(name=NAMES, value=VALUES)
    def begin(self, name: str, value: float) -> None:
        self.store.checkpoint(key(name)).stage("training").save(entry(value, 300))
        self.trainings[name] = {value}

    @rule(name=NAMES)
    def go_on(self, name: str) -> None:
        found = self.store.checkpoint(key(name)).stage("training").load()
        assert (found and found.facts["value"]) in self.trainings.get(name, {None})

    @rule(name=NAMES)
    def finish(self, name: str) -> None:
        self.store.checkpoint(key(name)).remove()
        self.trainings.pop(name, None)

    @rule(name=NAMES, value=VALUES, operation=st.integers(0, 9), cut=st.booleans())
    def save_and_be_killed(self, name: str, value: float, operation: int, cut: bool) -> None:
        if name in self.living:
            return

        def save() -> None:
            mine = Store(self.root)
            with mine.lock(key(name)):
                mine.save(entry(value, 300, name))

        before = self.states.get(name)
        killed_before(operation, self.root, save, cut)
        if (self.root / "states" / key(name)).is_dir():
            found = {value} if self._value(name) == value else before or set()
            if self._value(name) == value:
                self.harmed.discard(name)
            self.states[name] = found
        else:  # between taking away the former and putting the new in its place
            self.states.pop(name, None)
            self.harmed.discard(name)
        left = self.names_of(self.store.held(), "training")
        self.trainings = {one: of for one, of in self.trainings.items() if one in left}

    def _value(self, name: str) -> float | None:
        with contextlib.suppress(DamagedEntry):
            found = self.store.reread(key(name))
            return None if found is None else float(found.facts["value"])
        return None

    @rule(name=NAMES, value=VALUES, operation=st.integers(0, 4), cut=st.booleans())
    def begin_and_be_killed(self, name: str, value: float, operation: int, cut: bool) -> None:
        checkpoint = self.store.checkpoint(key(name)).stage("training")
        killed_before(operation, self.root, lambda: checkpoint.save(entry(value, 300)), cut)
        self.trainings[name] = self.trainings.get(name, {None}) | {value}
        found = checkpoint.load()
        assert (found and found.facts["value"]) in self.trainings[name]
        self.trainings[name] = {found.facts["value"] if found else None}
        if found is None:
            del self.trainings[name]

    @rule(limit=st.sampled_from([0, 1000, 3000, 10_000, 10**9]))
    def shrink(self, limit: int) -> None:
        gone = self.store.shrink(limit)
        self.noted(gone)
        left = [one for one in self.store.held() if one.kind != "stray"]
        if sum(one.size for one in left) > limit:  # only what lives could not go
            assert {one.kind for one in left} <= {"training", "half"} and self.names_of(left, "training") <= {
                *self.living
            }
        kept = [one.used for one in left if one.kind == "state"]
        assert max((one.used for one in gone if one.kind == "state"), default=0) <= min(kept, default=float("inf"))

    @rule(seconds=st.sampled_from([0.0, 86400.0]))
    def sweep(self, seconds: float) -> None:
        self.noted(self.store.sweep(seconds))
        left = self.store.held()
        assert self.names_of(left, "half") <= self.living.keys()
        if not seconds:
            assert self.names_of(left, "training") <= self.living.keys()

    @rule(name=NAMES)
    def another_process_begins(self, name: str) -> None:
        if name not in self.living:
            self.living[name] = contextlib.ExitStack()
            self.living[name].enter_context(Store(self.root).lock(key(name)))
            half = self.root / "states" / f".scail-{key(name)}.{'0' * 32}"
            half.mkdir(exist_ok=True)

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def another_process_dies(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.living)))
        half = self.root / "states" / f".scail-{key(name)}.{'0' * 32}"
        assert half.is_dir()  # whoever made room meanwhile
        self.living.pop(name).close()
        self.store = Store(self.root)

    @rule(name=st.sampled_from(["states/notes", "states/.DS_Store", "unfinished/x.safetensors", "mine", "states/0"]))
    def somebody_leaves_a_file(self, name: str) -> None:
        path = self.root / name
        path.write_text(name)
        self.strays[path] = name

    @rule()
    def verify(self) -> None:
        found = list(inspected(self.store))
        states = [one for one in found if one.kind == "states"]
        assert len(states) == len(self.states)
        damaged = [one for one in states if one.verdict != "sound"]
        must = [name for name in self.states if not self.states[name]]
        assert len(must) <= len(damaged) <= len(self.harmed)
        assert not [one for one in found if one.kind == "unfinished trainings" and one.verdict != "sound"]

    @invariant()
    def the_listing_is_what_is_there(self) -> None:
        assert self.store.keys() == {key(name) for name in self.states}
        assert {item.key for item in self.store.listing()} == self.store.keys()

    @invariant()
    def nobody_elses_files_are_touched(self) -> None:
        assert all(path.read_text() == text for path, text in self.strays.items())


@pytest.mark.parametrize(("examples", "steps"), [(25, 30), pytest.param(600, 60, marks=pytest.mark.soak)])
def test_whatever_is_done_to_a_store_it_gives_what_was_saved_or_nothing(examples: int, steps: int, monkeypatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power fails here, and it takes most of the time
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
