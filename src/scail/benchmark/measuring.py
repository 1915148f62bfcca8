"""One configuration, from data to results: its trajectories side by side, every head scored on features taken once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch

from scail import evaluation
from scail.benchmark.configuration import Line, Setup, provenance_of
from scail.benchmark.states import Chain, Step, Watch, trajectory
from scail.benchmark.thumbnails import sheet_of
from scail.config.recipes import Experiment, Schedule
from scail.datasets.dataset import fingerprint_of
from scail.datasets.images.batches import Augmentation
from scail.methods import METHODS, head_of
from scail.networks.network import extract_features
from scail.results.run_directory import Row, Sheet
from scail.runtime.allocation import keep_freed_memory
from scail.runtime.devices import fabric_of
from scail.runtime.ranks import ALONE, Ranks
from scail.storage.entry import Entry
from scail.storage.store import Store, key_of
from scail.stream import class_order, split_into_states
from scail.training import Balanced, Bic, Distill, FineTune, FrozenSvm, Joint, Trainer

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
    timing: dict[str, Any] | None = None


def trainer_of(name: str, experiment: Experiment, num_classes: int | None) -> Trainer:
    """The trainer of this name, with the experiment's settings; `num_classes`: all that will ever come, if known."""

    def scaled(schedule: Schedule) -> Schedule:
        times = experiment.ranks if experiment.linear_scaling else 1
        return replace(schedule, lr=schedule.lr * times, batch_size=schedule.batch_size * times)

    first = Joint(experiment.network, scaled(experiment.first_schedule))
    if name == "joint":
        return first
    if name == "distill":
        return Distill(experiment.network, scaled(experiment.distill_schedule), num_classes)
    if name == "bic":
        bic_first = Joint(experiment.network, scaled(experiment.bic_first_schedule))
        return Bic(bic_first, scaled(experiment.bic_schedule), experiment.bic_correction_schedule)  # stage 2: rank 0's
    if name == "frozen_svm":
        return FrozenSvm(first)
    fine_tune = FineTune(first, scaled(experiment.later_schedule), experiment.keep_past_rows)
    if name == "fine_tune":
        return fine_tune
    balanced = scaled(experiment.balanced_schedule)
    if name == "balanced":
        return Balanced(fine_tune, balanced)
    return Balanced(replace(fine_tune, keep_past_rows=True), balanced, distill=True)


def chain_of(setup: Setup, line: Line) -> Chain:
    """The trajectory behind a line. Full is one state with all classes."""
    experiment, dataset = setup.experiment, setup.dataset
    trainer = trainer_of(line.trainer, experiment, len(dataset.class_names))
    states = setup.states
    if line.trainer == "joint":
        order = class_order(experiment.class_order, dataset.class_names, experiment.seed, icarl=dataset.icarl)
        states = split_into_states(dataset, 1, order)
    augmentation = Augmentation(experiment.padding, dataset.mirror)
    return Chain(
        trainer, states, line.select, line.memory, augmentation, experiment.seed, experiment.precision,
        experiment.sync_batch_norm,
    )  # fmt: skip


def run_line(setup: Setup, line: Line, store: Store, watch: Watch, ranks: Ranks = ALONE) -> Iterator[Measured]:
    """Go through a line's states; yields what each of them gave (on rank 0; the other ranks only take part)."""
    fabric = fabric_of(setup.experiment)
    torch.set_num_threads(setup.experiment.threads)
    keep_freed_memory()
    if torch.backends.cudnn.is_available():
        torch.backends.cudnn.deterministic = True
    provenance = provenance_of(setup, str(fabric.device))
    chain = chain_of(setup, line)
    warnings.filterwarnings("ignore", message="memory of .* images for .* classes")  # said once, by `set_up`
    began = time.perf_counter()
    for step in trajectory(chain, setup.dataset, store, fabric, watch, ranks):
        learned = time.perf_counter()
        features, labels = _test_features(setup, chain, step, store, fabric, watch, ranks)
        measured = ranks.on_first(_measure, setup, chain, line, step, features, labels, provenance)
        ended = time.perf_counter()
        timing = {"trained_epochs": step.trained_epochs, "seconds": learned - began, "evaluation": ended - learned}
        if measured is not None:
            yield replace(measured, timing=_where(line, step) | timing)
        began = time.perf_counter()


def _test_features(
    setup: Setup, chain: Chain, step: Step, store: Store, fabric: Fabric, watch: Watch, ranks: Ranks
) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and labels of the test images of all classes seen: taken once, for every head."""
    seen = chain.states[: step.state.index + 1]
    labels = torch.cat([state.test_labels for state in seen])
    images = setup.dataset.test.images[torch.cat([state.test_indices for state in seen])]
    network = step.learned.network

    def extract() -> torch.Tensor:
        network.to(fabric.device)
        with fabric.autocast():
            features = extract_features(network, images, ranks)
        network.cpu()
        return features

    if not setup.experiment.keep_features:
        return extract(), labels
    made_from = {"previous": step.key, "test_data": fingerprint_of(images, labels)}
    key = key_of(made_from)

    def damaged(damage: str) -> None:
        watch.note(step.state, f"test features damaged, made again ({damage})")

    with ExitStack() as held:
        ranks.on_first(held.enter_context, store.lock(key))
        entry = ranks.decided(store.find, key, damaged)
        if entry is None:
            facts = {"made_from": made_from, "dataset": setup.dataset.name, "state": step.state.index}
            entry = Entry({"features_ND": extract()}, facts | {"kind": "test features"})
            ranks.on_first(store.save, key, entry)
    return entry.tensors["features_ND"], labels


def _measure(
    setup: Setup, chain: Chain, line: Line, step: Step, features: torch.Tensor, labels: torch.Tensor,
    provenance: dict[str, Any],
) -> Measured:  # fmt: skip
    """Every head of the line, scored on the same features."""
    learned = step.learned
    evidence, past = learned.evidence, step.state.past_classes
    rows, confusion = [], {}
    for method in line.methods:
        head = head_of(method, setup.experiment, learned)
        scores = head.scores(features)
        predicted = scores.argmax(1)
        rows.append(
            Row(
                method=method,
                label=METHODS[method].label,
                in_paper=METHODS[method].in_paper,
                select=line.select,
                memory=chain.memory,
                exemplars=len(learned.memory),
                trainer=line.trainer,
                state=step.state.index,
                classes=step.state.num_classes,
                top1=evaluation.top_k_accuracy(scores, labels, 1),
                top5=evaluation.top_k_accuracy(scores, labels, 5),
                test_images=len(labels),
                errors=evaluation.error_counts(predicted, labels, past),
                past_errors_by_origin=evaluation.past_errors_by_origin(predicted, labels, evidence.first_state_C),
                scores=evaluation.true_class_scores(head.linear_scores(features), labels, past),
                seed=setup.experiment.seed,
                trained_epochs=step.trained_epochs,
                provenance=provenance,
            )
        )
        matrix = evaluation.confusion_matrix(predicted, labels, step.state.num_classes)
        confusion[method] = matrix.to(torch.int32).numpy()
    weights = None
    if line.trainer not in ("joint", "frozen_svm"):  # no layer of all classes to look at
        ranked = evaluation.ranked_weights(evidence.weight_CD, evidence.initial_weight_CD, past)
        weights = {"trainer": line.trainer, "select": line.select, "state": step.state.index, "ranked": ranked}
    return Measured(step.state.index, rows, confusion, weights, *_memory_of(setup, line, step))


def _where(line: Line, step: Step) -> dict[str, Any]:
    """A state of a trajectory, as records name it."""
    return {"trainer": line.trainer, "select": line.select, "memory": line.memory, "state": step.state.index}


def _memory_of(setup: Setup, line: Line, step: Step) -> tuple[dict[str, Any] | None, Sheet | None]:
    """How many exemplars each class has after the state, and small pictures of those of the new classes."""
    if line.memory == 0:
        return None, None
    exemplars = step.learned.memory.exemplars
    kept = [[count, len(list(classes))] for count, classes in groupby(map(len, exemplars))]
    new = exemplars[step.state.past_classes :]
    sheet = sheet_of(setup.dataset.train.images, new, len(setup.dataset.class_names))
    return _where(line, step) | {"kept": kept}, sheet
