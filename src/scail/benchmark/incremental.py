"""The incremental loop: all states of a trajectory, through the store. What was trained before is not trained again.

With several ranks the same code runs on every one. Rank 0 alone touches the store and chooses exemplars; all get what
it made.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scail.benchmark.trajectory import Trajectory, asked_memory, data_of_state, facts_of
from scail.exemplars import Memory
from scail.learner import Learned, Rows, remember, train_state
from scail.networks.network import Network, network_from
from scail.networks.pretrained import start_network
from scail.runtime.devices import device_of
from scail.runtime.ranks import ALONE, Ranks
from scail.storage.entry import Entry, key_of
from scail.storage.store import Store
from scail.stream import State
from scail.training import Interrupted, Progress, Task, Trained, Trainer

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Watch:
    """Who is told what happens, and who may ask to stop."""

    note: Callable[[State, str], None] = lambda state, text: None
    """Called when a state comes from the store, is trained, was damaged, ..."""
    progress: Callable[[State, Progress], None] = lambda state, progress: None
    stop_asked: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Step:
    """One state of a trajectory."""

    state: State
    key: str
    learned: Learned
    trained_epochs: int
    """Epochs that were trained for it now; 0 where it came from the store."""
    rate_lowered: tuple[int, ...] | None = None
    """The epochs for which the plateau rule lowered the rate, where there was one and this is rank 0."""
    training_seconds: float | None = None
    """How long its training took, now or when it was made."""
    epochs: int | None = None
    """Epochs that its training had, whenever that was."""


def steps_of(
    trajectory: Trajectory, store: Store, fabric: Fabric, watch: Watch, ranks: Ranks = ALONE
) -> Iterator[Step]:
    """Each state in turn: from the store, or trained and put there."""
    walk, learned = _Walk(trajectory, store, fabric, watch, ranks), None
    for state in trajectory.states:
        walk.stop_if_asked()
        key = walk.key_of(state, learned)
        task = walk.task(state, learned, key)
        trained, epochs = walk.found_or_trained(state, task, key, learned)
        learned = walk.learned(state, task, trained, key, learned)
        yield Step(
            state, key, learned, epochs, trained.rate_lowered if trained else None, walk.seconds.get(state.index),
            walk.epochs.get(state.index),
        )  # fmt: skip


@dataclass(frozen=True)
class _Walk:
    """What the states of one trajectory have in common."""

    trajectory: Trajectory
    store: Store
    fabric: Fabric
    watch: Watch
    ranks: Ranks
    facts: list[dict[str, object]] = field(default_factory=list)
    """What decides each state so far."""
    seconds: dict[int, float] = field(default_factory=dict)
    """How long the training of each state took, whenever that was; on rank 0."""
    epochs: dict[int, int] = field(default_factory=dict)
    """How many epochs it had."""

    def stop_if_asked(self) -> None:
        if self.ranks.any(self.watch.stop_asked()):
            raise Interrupted

    def key_of(self, state: State, before: Learned | None) -> str:
        """The key of the state. Ranks that hold other data or exemplars would train another network each: an error."""
        data = data_of_state(self.trajectory.configuration.dataset, state)
        past = [key_of(facts) for facts in self.facts]
        self.facts.append(facts_of(self.trajectory, state, past, data, device_of(self.fabric)))
        key = key_of(self.facts[-1])
        if self.ranks.count > 1:
            memory = _memory(before)
            exemplars = [memory.budget, *(rows.tolist() for rows in memory.exemplars)]
            found = {"data, settings or versions": key, "class orders": _hash(state.class_names)}
            self.ranks.check_same(f"state {state.index}", found | {"exemplars": _hash(exemplars)})
        return key

    def task(self, state: State, before: Learned | None, key: str) -> Task:
        """All images of the new classes, and the exemplars of the past ones."""
        memory, experiment = _memory(before), self.trajectory.configuration.experiment
        indices = torch.cat([state.train_indices, memory.indices])
        return Task(
            state=state.index,
            images=self.trajectory.configuration.dataset.train.images[indices],
            labels=torch.cat([state.train_labels, memory.labels]),
            num_classes=state.num_classes,
            previous=before.network if before else None,
            augmentation=self.trajectory.augmentation,
            seed=experiment.seed,
            fabric=self.fabric,
            stop_asked=self.watch.stop_asked,
            checkpoint=self.store.checkpoint(key),
            past_classes=state.past_classes,
            budget=self.trajectory.budget(state.past_classes),
            budget_after=self.trajectory.budget(state.num_classes),
            carried=before.carried if before else {},
            exemplars=len(memory),
            exemplar_features_ED=before.evidence.exemplar_features_ED if before else None,
            start=self._start() if state.index == 0 else None,
            ranks=self.ranks,
            sync_batch_norm=experiment.machine.sync_batch_norm and self.ranks.count > 1,
        )

    def _start(self) -> Network | None:
        """What state 0 begins with, where weights are given."""
        recipe = self.trajectory.configuration.experiment.recipe
        channels = self.trajectory.configuration.dataset.train.images.shape[1]
        return start_network(recipe.network, recipe.weights, channels) if recipe.weights else None

    def found_or_trained(
        self, state: State, task: Task, key: str, before: Learned | None
    ) -> tuple[Trained | None, int]:
        """What the training of the state left (what was found in the store, on rank 0 only), and epochs trained."""
        found = self.ranks.on_first(self._found, state, key)
        if self.ranks.any(found is not None):
            return found, 0
        with ExitStack() as held:
            # Another process may be training it: wait, then use what it made.
            self.ranks.on_first(held.enter_context, self.store.lock(key, self._waiting(state)))
            found = self.ranks.on_first(self._found, state, key)
            if self.ranks.any(found is not None):
                return found, 0
            trained, metrics = self._train(state, task, before)
            name = self.trajectory.configuration.dataset.name
            entry = _to_entry(trained, {"made_from": self.facts[-1], "dataset": name, **metrics})
            self.ranks.on_first(self._keep, entry)
            self._took(state, entry)
            return trained, metrics["trained_epochs"]

    def learned(self, state: State, task: Task, trained: Trained | None, key: str, before: Learned | None) -> Learned:
        """The learner after a state that was trained: exemplars chosen, evidence collected, by rank 0 for all."""
        return self.ranks.decided(self._learned, state, task, trained, key, before)

    def _learned(self, state: State, task: Task, trained: Trained | None, key: str, before: Learned | None) -> Learned:
        assert trained is not None
        of = self.trajectory
        # Rows are of this data set as it is now: in the one that the state was trained on they may stand elsewhere.
        trained = replace(trained, new_indices=state.train_indices, exemplar_indices=_memory(before).indices)
        carried = self._complete(state, task, trained, key)
        aside, budget = of.training.set_aside(task), of.budget(state.num_classes)
        return remember(trained, before, of.selection, budget, task.seed, carried, aside)

    def _train(self, state: State, task: Task, before: Learned | None) -> tuple[Trained, dict[str, Any]]:
        """Train this state, going on from its checkpoint where there is one; also gives what was measured meanwhile."""
        started = time.perf_counter()
        begun = self.ranks.on_first(self._begun, state, task) or 0
        losses, lowered = list[float](), list[bool | None]()

        def report(progress: Progress) -> None:
            if progress.loss is not None:
                losses.append(progress.loss)
                lowered.append(progress.lowered)
            self.watch.progress(state, progress)

        rows = Rows(state.train_indices, _memory(before).indices)
        trained = train_state(self.trajectory.training_at(state.index), replace(task, report=report), rows)
        metrics = {
            "state": state.index,
            "classes": state.num_classes,
            "epochs": len(losses),
            "most_epochs": self.trajectory.epochs[state.index],
            "trained_epochs": len(losses) - begun,
            "losses": losses,
            "seconds": time.perf_counter() - started,
        }
        if any(one is not None for one in lowered):
            trained = replace(trained, rate_lowered=tuple(n for n, one in enumerate(lowered, 1) if one))
            epochs = ", ".join(map(str, trained.rate_lowered or ()))
            told = f"lowered the rate for epoch {epochs}" if epochs else "never lowered the rate"
            self.watch.note(state, f"the plateau rule {told} (of {len(losses)})")
        return trained, metrics

    def _begun(self, state: State, task: Task) -> int:
        """How many epochs were trained before."""
        assert task.checkpoint is not None
        stages = task.checkpoint.stages()
        begun = sum(len(entry.facts["losses"]) for entry in stages if entry is not None)
        if None in stages:
            self.watch.note(
                state, f"a checkpoint is damaged and not used ({task.checkpoint.path.stem}, in unfinished/)"
            )
        self.watch.note(state, f"training goes on in epoch {begun + 1}" if begun else "training")
        return begun

    def _complete(self, state: State, task: Task, trained: Trained, key: str) -> dict[str, Tensor]:
        """What the trainer leaves beside the network, from the store if it is there."""
        trainer = self.trajectory.training
        if type(trainer).complete is Trainer.complete:
            return {}
        made_from: dict[str, object] = {"previous": key, "completion": self.trajectory.settings(1)}
        if state.index == 0 and trainer.completes_by_memory:
            made_from |= {"memory": asked_memory(self.trajectory)}

        unfinished = self.store.checkpoint(key_of(made_from))
        task = replace(task, checkpoint=unfinished, report=partial(self.watch.progress, state))

        def make() -> Entry:
            name = self.trajectory.configuration.dataset.name
            facts = {"made_from": made_from, "dataset": name, "state": state.index, "kind": "completion"}
            began = time.perf_counter()
            tensors = trainer.complete(trained, task)
            return Entry(tensors, facts | {"seconds": time.perf_counter() - began})

        entry = self.store.find_or_make(key_of(made_from), make, self._damaged(state), self._waiting(state))
        with contextlib.suppress(OSError):  # a read-only store can be read
            unfinished.remove()
        self._took(state, entry)
        return entry.tensors

    def _took(self, state: State, entry: Entry) -> None:
        """Add what making this entry took; of a training that was interrupted, as if it had been made in one go."""
        if (epochs := entry.facts.get("epochs")) is not None:
            self.epochs[state.index] = epochs
        if (seconds := entry.facts.get("seconds")) is not None:
            share = entry.facts.get("epochs", 0) / (entry.facts.get("trained_epochs") or 1) or 1
            self.seconds[state.index] = self.seconds.get(state.index, 0.0) + seconds * share

    def _found(self, state: State, key: str) -> Trained | None:
        entry = self.store.find(key, self._damaged(state))
        if entry is None:
            return None
        self.watch.note(state, "from the store")
        with contextlib.suppress(OSError):  # a read-only store can be read
            self.store.checkpoint(key).remove()  # left where a process was killed right after it saved the state
        self._took(state, entry)
        return _from_entry(entry)

    def _keep(self, entry: Entry) -> None:
        self.store.save(entry)
        self.store.checkpoint(entry.key).remove()

    def _damaged(self, state: State) -> Callable[[str], None]:
        return lambda damage: self.watch.note(state, f"damaged in the store, made again ({damage})")

    def _waiting(self, state: State) -> Callable[[], None]:
        """What to do while another process trains this state: say so once, and look whether to stop."""
        said = False

        def wait() -> None:
            nonlocal said
            if not said:
                self.watch.note(state, "another process is at it: waiting")
                said = True
            if self.watch.stop_asked():
                raise Interrupted

        return wait


def _memory(before: Learned | None) -> Memory:
    return before.memory if before else Memory(0)


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _to_entry(trained: Trained, facts: dict[str, Any]) -> Entry:
    tensors = {f"network.{name}": tensor for name, tensor in trained.network.state_dict().items()}
    for name in ("new_indices", "new_labels", "exemplar_indices", "exemplar_labels", "features_ND"):
        tensors[name] = getattr(trained, name)
    if trained.rate_lowered is not None:
        facts |= {"rate_lowered": trained.rate_lowered}
    return Entry(tensors, facts | {"network": trained.network.name, "channels": trained.network.channels})


def _from_entry(entry: Entry) -> Trained:
    weights = {k.removeprefix("network."): v for k, v in entry.tensors.items() if k.startswith("network.")}
    rest = {k: v for k, v in entry.tensors.items() if not k.startswith("network.")}
    network, lowered = network_from(entry.facts["network"], entry.facts["channels"], weights), None
    if "rate_lowered" in entry.facts:
        lowered = tuple(entry.facts["rate_lowered"])
    return Trained(network, **rest, rate_lowered=lowered)
