"""All states of a trajectory, through the store: what was trained before is not trained again.

The key of a state is a chain: the previous state's key, the data of the new classes, the trainer's settings, seed,
threads, device, precision and versions (they change bits), and, from state 1 on, how exemplars are chosen and how many.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from scail.config.recipes import Select
from scail.datasets.dataset import Dataset, fingerprint_of
from scail.datasets.images.batches import Augmentation
from scail.exemplars import SELECTION_VERSION, Memory
from scail.learner import Learned, Rows, remember, train_state
from scail.networks.network import NETWORK_VERSION, create_network
from scail.runtime.ranks import ALONE, Ranks
from scail.runtime.seeds import generator_for
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry
from scail.storage.store import Store, key_of
from scail.stream import State
from scail.training import Interrupted, Progress, Task, Trained, Trainer

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Chain:
    """What decides a trajectory."""

    trainer: Trainer
    states: tuple[State, ...]
    select: Select | None
    memory: int
    augmentation: Augmentation
    seed: int
    precision: str = "32-true"
    sync_batch_norm: bool = False


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


@dataclass(frozen=True)
class Machine:
    """What of the machine changes bits."""

    threads: int
    device: tuple[str, str]
    """Its type and kind: other kinds add up in another order."""
    ranks: int = 1
    """Devices that share out each batch."""
    sync_batch_norm: bool = False


def machine_of(fabric: Fabric, threads: int, ranks: int = 1, sync_batch_norm: bool = False) -> Machine:
    """The machine that this Fabric trains on, with so many threads, and so many ranks in all."""
    kind = fabric.device.type
    name = torch.cuda.get_device_name(fabric.device) if kind == "cuda" else torch.backends.cpu.get_cpu_capability()
    return Machine(threads, (kind, name), ranks, sync_batch_norm)


def data_of_state(dataset: Dataset, state: State) -> str:
    """The fingerprint of a state's own training images."""
    return fingerprint_of(dataset.train.images[state.train_indices], state.train_labels)


def keys_of(chain: Chain, machine: Machine, data: Callable[[State], str]) -> list[str]:
    """The keys that the states of this trajectory will have: nothing is trained. `data`: a state's fingerprint."""
    keys, key = [], ""
    for state in chain.states:
        key = key_of(_facts(key, chain, state, data(state), machine))
        keys.append(key)
    return keys


def trajectory(
    chain: Chain, dataset: Dataset, store: Store, fabric: Fabric, watch: Watch, ranks: Ranks = ALONE
) -> Iterator[Step]:
    """Each state in turn: from the store, or trained and put there.

    With several ranks, rank 0 alone touches the store, chooses exemplars and completes a state; all get what it made.
    """
    before: Learned | None = None
    key, machine = "", machine_of(fabric, torch.get_num_threads(), ranks.count, chain.sync_batch_norm)
    for state in chain.states:
        if ranks.any(watch.stop_asked()):
            raise Interrupted
        facts = _facts(key, chain, state, data_of_state(dataset, state), machine)
        key = key_of(facts)
        if ranks.count > 1:
            _check_ranks(ranks, state, key, before.memory if before else Memory(0))
        task = _task(chain, state, before, dataset, store.checkpoint(key), fabric, watch, ranks)
        trained, epochs = ranks.on_first(_from_store, store, key, state, watch), 0
        if not ranks.any(trained is not None):
            with ExitStack() as held:
                # Another may be training it: wait, then use what it made.
                ranks.on_first(held.enter_context, store.lock(key, _waiting(state, watch)))
                trained = ranks.on_first(_from_store, store, key, state, watch)
                if not ranks.any(trained is not None):
                    trained, metrics = _train(chain, state, task, before, watch)
                    entry = _to_entry(trained, {"made_from": facts, "dataset": dataset.name, **metrics})
                    ranks.on_first(_keep, store, key, entry)
                    epochs = metrics["trained_epochs"]
        before = ranks.decided(_learned, chain, state, task, trained, before, store, key, dataset, watch)
        yield Step(state, key, before, epochs)


def _check_ranks(ranks: Ranks, state: State, key: str, memory: Memory) -> None:
    """Ranks that hold other exemplars, or other data, would train another network each, and exceed the memory."""
    exemplars = [memory.budget, *(rows.tolist() for rows in memory.exemplars)]
    found = {"data, settings or versions": key, "class orders": _hash(state.class_names), "exemplars": _hash(exemplars)}
    ranks.check_same(f"state {state.index}", found)


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _keep(store: Store, key: str, entry: Entry) -> None:
    store.save(key, entry)
    store.checkpoint(key).remove()


def _learned(
    chain: Chain, state: State, task: Task, trained: Trained | None, before: Learned | None, store: Store, key: str,
    dataset: Dataset, watch: Watch,
) -> Learned:  # fmt: skip
    """The learner after a state that was trained: exemplars chosen, evidence collected."""
    assert trained is not None
    # Rows are of this data set as it is now: in the one that the state was trained on they may stand elsewhere.
    memory = before.memory if before else Memory(0)
    trained = replace(trained, new_indices=state.train_indices, exemplar_indices=memory.indices)
    carried = _complete(chain, state, task, trained, store, key, dataset, watch)
    return remember(trained, before, chain.select or "random", chain.memory, chain.seed, carried)


def _facts(previous_key: str, chain: Chain, state: State, data: str, machine: Machine) -> dict[str, object]:
    """Everything that decides the bits of this state, and nothing else."""
    facts: dict[str, object] = {
        "previous": previous_key,
        "data": data,
        "trainer": chain.trainer.settings(state.index),
        "augmentation": [chain.augmentation.padding, chain.augmentation.mirror],
        "seed": chain.seed,
        "threads": machine.threads,
        "device": list(machine.device),
        "network": NETWORK_VERSION,
        "precision": chain.precision,
        "torch": torch.__version__,
    }
    if machine.ranks > 1:
        facts |= {"ranks": machine.ranks, "sync_batch_norm": machine.sync_batch_norm}
    if state.index:
        facts |= {"select": chain.select, "memory": chain.memory, "selection": SELECTION_VERSION}
    return facts


def _waiting(state: State, watch: Watch) -> Callable[[], None]:
    """What to do while another process trains this state: say so once, and look whether to stop."""
    said = False

    def wait() -> None:
        nonlocal said
        if not said:
            watch.note(state, "another process is at it: waiting")
            said = True
        if watch.stop_asked():
            raise Interrupted

    return wait


def _task(
    chain: Chain, state: State, before: Learned | None, dataset: Dataset,
    checkpoint: Checkpoint, fabric: Fabric, watch: Watch, ranks: Ranks,
) -> Task:  # fmt: skip
    """All images of the new classes, and the exemplars of the past ones."""
    memory = before.memory if before else Memory(0)
    indices = torch.cat([state.train_indices, memory.indices])
    return Task(
        state=state.index,
        images=dataset.train.images[indices],
        labels=torch.cat([state.train_labels, memory.labels]),
        num_classes=state.num_classes,
        previous=before.network if before else None,
        augmentation=chain.augmentation,
        seed=chain.seed,
        fabric=fabric,
        stop_asked=watch.stop_asked,
        checkpoint=checkpoint,
        past_classes=state.past_classes,
        budget=chain.memory,
        carried=before.carried if before else {},
        ranks=ranks,
        sync_batch_norm=chain.sync_batch_norm and ranks.count > 1,
    )


def _train(
    chain: Chain, state: State, task: Task, before: Learned | None, watch: Watch
) -> tuple[Trained, dict[str, Any]]:
    """Train this state, going on from its checkpoint where there is one; also gives what was measured on the way."""
    started = time.perf_counter()
    begun = task.ranks.on_first(_begun, state, task, watch) or 0
    losses = list[float]()

    def report(progress: Progress) -> None:
        if progress.loss is not None:
            losses.append(progress.loss)
        watch.progress(state, progress)

    memory = before.memory if before else Memory(0)
    rows = Rows(state.train_indices, memory.indices)
    trained = train_state(chain.trainer, replace(task, report=report), rows)
    metrics = {
        "state": state.index,
        "classes": state.num_classes,
        "epochs": len(losses),
        "trained_epochs": len(losses) - begun,
        "losses": losses,
        "seconds": time.perf_counter() - started,
    }
    return trained, metrics


def _begun(state: State, task: Task, watch: Watch) -> int:
    """How many epochs were trained before."""
    assert task.checkpoint is not None
    stages = task.checkpoint.stages()
    begun = sum(len(entry.facts["losses"]) for entry in stages if entry is not None)
    if None in stages:
        watch.note(state, f"a checkpoint is damaged and not used ({task.checkpoint.path.stem}, in unfinished/)")
    watch.note(state, f"training goes on in epoch {begun + 1}" if begun else "training")
    return begun


def _complete(
    chain: Chain, state: State, task: Task, trained: Trained, store: Store, key: str, dataset: Dataset, watch: Watch
) -> dict[str, torch.Tensor]:
    """What the trainer leaves beside the network, from the store if it is there."""
    if type(chain.trainer).complete is Trainer.complete:
        return {}
    made_from = {"previous": key, "completion": chain.trainer.settings(1)}
    own_key = key_of(made_from)
    with store.lock(own_key, _waiting(state, watch)):
        entry = store.find(own_key, _damaged(state, watch))
        if entry is None:
            facts = {"made_from": made_from, "dataset": dataset.name, "state": state.index, "kind": "completion"}
            entry = Entry(chain.trainer.complete(trained, task), facts)
            store.save(own_key, entry)
    return entry.tensors


def _damaged(state: State, watch: Watch) -> Callable[[str], None]:
    return lambda damage: watch.note(state, f"damaged in the store, made again ({damage})")


def _to_entry(trained: Trained, facts: dict[str, Any]) -> Entry:
    tensors = {f"network.{name}": tensor for name, tensor in trained.network.state_dict().items()}
    for name in ("new_indices", "new_labels", "exemplar_indices", "exemplar_labels", "features_ND"):
        tensors[name] = getattr(trained, name)
    return Entry(tensors, facts | {"network": trained.network.name, "channels": trained.network.channels})


def _from_store(store: Store, key: str, state: State, watch: Watch) -> Trained | None:
    entry = store.find(key, _damaged(state, watch))
    if entry is None:
        return None
    watch.note(state, "from the store")
    store.checkpoint(key).remove()  # one is left where a process was killed right after it had saved the state
    return _from_entry(entry)


def _from_entry(entry: Entry) -> Trained:
    weights = {k.removeprefix("network."): v for k, v in entry.tensors.items() if k.startswith("network.")}
    network = create_network(
        entry.facts["network"], entry.facts["channels"], len(weights["linear.bias"]), generator_for(0, "overwritten")
    )
    network.load_state_dict(weights)
    rest = {k: v for k, v in entry.tensors.items() if not k.startswith("network.")}
    return Trained(network=network.eval(), **rest)
