"""What the states of a trajectory give: every head scored on features that are taken once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch

from scail import evaluation
from scail.benchmark.configuration import provenance_of
from scail.benchmark.cost import Costs
from scail.benchmark.incremental import Step, Watch, steps_of
from scail.benchmark.rehearsal import Rehearsal
from scail.benchmark.thumbnails import generated_sheet, sheet_of
from scail.benchmark.trajectory import Trajectory
from scail.datasets.dataset import fingerprint_of
from scail.results.row import Row
from scail.results.run_directory import Sheet
from scail.runtime.allocation import keep_freed_memory
from scail.runtime.devices import fabric_of
from scail.runtime.ranks import ALONE, Ranks
from scail.storage.entry import Entry, key_of
from scail.storage.store import Store
from scail.training.generators import Generators, recognised_share

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Measured:
    """What one state of a trajectory gave."""

    state: int
    rows: list[Row]
    confusion: dict[str, Any]
    """Per method, the confusion matrix of the state."""
    weights: dict[str, Any] | None
    memory: dict[str, Any] | None = None
    """How many exemplars each class has, as runs of (exemplars, classes); None: no memory."""
    sheet: Sheet | None = None
    """Thumbnails of the new classes' exemplars."""
    generated: Sheet | None = None
    """Thumbnails of images that are made up of the new classes, beside real ones."""
    timing: dict[str, Any] | None = None


def measured_states(trajectory: Trajectory, store: Store, watch: Watch, ranks: Ranks = ALONE) -> Iterator[Measured]:
    """Go through a trajectory; yields what each state gave (on rank 0; the other ranks only take part)."""
    machine = trajectory.configuration.experiment.machine
    fabric = fabric_of(machine)
    torch.set_num_threads(machine.threads)
    keep_freed_memory()
    if torch.backends.cudnn.is_available():
        torch.backends.cudnn.deterministic = True
    began, rehearsal, costs = time.perf_counter(), Rehearsal(trajectory), Costs(trajectory)
    for step in steps_of(trajectory, store, fabric, watch, ranks):
        learned = time.perf_counter()
        features, labels = _test_features(trajectory, step, store, fabric, watch, ranks)
        measured = ranks.on_first(_measure, rehearsal, costs, step, features, labels, str(fabric.device))
        ended = time.perf_counter()
        timing: dict[str, Any] = {
            "trained_epochs": step.trained_epochs,
            "seconds": learned - began,
            "evaluation": ended - learned,
            "training": step.training_seconds,
        }
        if step.rate_lowered is not None:
            timing["rate_lowered"] = list(step.rate_lowered)
        if measured is not None:
            yield replace(measured, timing=_where(trajectory, step) | timing)
        began = time.perf_counter()


def _test_features(
    trajectory: Trajectory, step: Step, store: Store, fabric: Fabric, watch: Watch, ranks: Ranks
) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and labels of the test images of all classes seen: taken once, for every head."""
    configuration, seen = trajectory.configuration, trajectory.states[: step.state.index + 1]
    labels = torch.cat([state.test_labels for state in seen])
    images = configuration.dataset.test.images[torch.cat([state.test_indices for state in seen])]
    network = step.learned.network

    def extract() -> torch.Tensor:
        network.to(fabric.device)
        features = trajectory.training.extract(network, images, ranks)
        network.cpu()
        return features

    if not configuration.experiment.keep_features:
        return extract(), labels
    made_from = {"previous": step.key, "test_data": fingerprint_of(images, labels)}
    key = key_of(made_from)

    def damaged(damage: str) -> None:
        watch.note(step.state, f"test features damaged, made again ({damage})")

    # To find them nothing is written, not even a lock: the store may be read-only.
    entry = ranks.decided(store.find, key, lambda damage: None)
    with ExitStack() as held:
        if entry is None:
            ranks.on_first(held.enter_context, store.lock(key))
            entry = ranks.decided(store.find, key, damaged)
        if entry is None:
            facts = {"made_from": made_from, "dataset": configuration.dataset.name, "state": step.state.index}
            entry = Entry({"features_ND": extract()}, facts | {"kind": "test features"})
            ranks.on_first(store.save, entry)
    return entry.tensors["features_ND"], labels


def _measure(
    rehearsal: Rehearsal, costs: Costs, step: Step, features: torch.Tensor, labels: torch.Tensor, device: str
) -> Measured:
    """Every head of the trajectory, scored on the same features."""
    trajectory = rehearsal.trajectory
    learned, experiment = step.learned, trajectory.configuration.experiment
    provenance = provenance_of(trajectory.configuration, device)
    evidence, past, methods = learned.evidence, step.state.past_classes, trajectory.table.methods
    rows, confusion = [], {}
    on_learning = rehearsal.measure(step, features, labels)
    for method in trajectory.methods:
        head, cost = costs.head(method, step)
        scores = head.scores(features)
        predicted = scores.argmax(1)
        correct, images = evaluation.counts_by_state(predicted, labels, evidence.first_state_C)
        rows.append(
            Row(
                method=method,
                label=methods[method].label,
                in_paper=methods[method].in_paper,
                select=trajectory.select,
                memory=trajectory.memory,
                exemplars=len(learned.memory),
                trainer=trajectory.trainer,
                state=step.state.index,
                classes=step.state.num_classes,
                top1=evaluation.top_k_accuracy(scores, labels, 1),
                top5=evaluation.top_k_accuracy(scores, labels, 5),
                test_images=len(labels),
                errors=evaluation.error_counts(predicted, labels, past),
                past_errors_by_origin=evaluation.past_errors_by_origin(predicted, labels, evidence.first_state_C),
                scores=evaluation.true_class_scores(head.linear_scores(features), labels, past),
                seed=experiment.seed,
                trained_epochs=step.trained_epochs,
                provenance=provenance,
                correct_by_state=correct,
                images_by_state=images,
                task_given=evaluation.task_given_accuracy(scores, labels, evidence.first_state_C),
                generated_top1=recognised_share(learned.carried),
                cost=cost,
                **on_learning,
            )
        )
        matrix = evaluation.confusion_matrix(predicted, labels, step.state.num_classes)
        confusion[method] = matrix.to(torch.int32).numpy()
    weights = None
    if trajectory.kind.own_layer:
        ranked = evaluation.ranked_weights(evidence.weight_CD, evidence.initial_weight_CD, past)
        where = {name: value for name, value in _where(trajectory, step).items() if name != "memory"}
        weights = {**where, "ranked": ranked}
    return Measured(step.state.index, rows, confusion, weights, *_memory_of(trajectory, step))


def _where(trajectory: Trajectory, step: Step) -> dict[str, Any]:
    """A state of a trajectory, as records name it."""
    trainer, select, memory, _ = trajectory.reading
    return {"trainer": trainer, "select": select, "memory": memory, "state": step.state.index}


def _memory_of(trajectory: Trajectory, step: Step) -> tuple[dict[str, Any] | None, Sheet | None, Sheet | None]:
    """How many exemplars each class has after the state, and small pictures: of those of the new classes, and of images
    that are made up of them."""
    dataset, carried = trajectory.configuration.dataset, step.learned.carried
    generators = Generators.carried_in(carried)
    if trajectory.memory == 0 and generators is None:
        return None, None, None
    exemplars = step.learned.memory.exemplars
    kept = [[count, len(list(classes))] for count, classes in groupby(map(len, exemplars))]
    new, classes = range(step.state.past_classes, step.state.num_classes), len(dataset.class_names)
    record = _where(trajectory, step) | {"kept": kept}
    sheet = sheet_of(dataset.train.images, exemplars[new.start :], classes)
    if generators is None:
        return record, sheet, None
    real = [step.state.train_indices[step.state.train_labels == label] for label in new]
    seed = trajectory.configuration.experiment.seed
    made = generated_sheet(dataset.train.images, real, partial(generators.drawn, seed=seed), new, classes)
    record["recognised"] = [round(100 * share, 1) for share in generators.recognised_C[new.start :].tolist()]
    return record, sheet, made
