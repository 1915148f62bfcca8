"""One configuration, from data to results: its trajectories side by side, every head scored on features taken once."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from scail import evaluation
from scail.allocation import keep_freed_memory
from scail.datasets import Dataset, DataSettings, load_dataset
from scail.datasets.dataset import fingerprint_of
from scail.devices import check_devices, fabric_of
from scail.images import Augmentation
from scail.methods import METHODS, choose_methods, head_of, split_name
from scail.network import create_network, describe_network, extract_features
from scail.ranks import ALONE, Ranks
from scail.recipes import Experiment, Schedule, Select
from scail.results import AVERAGING, Row, Sheet
from scail.seeding import generator_for
from scail.store import Entry, Store, key_of
from scail.stream import State, class_order, split_into_states
from scail.thumbnails import sheet_of
from scail.training import Balanced, Bic, Distill, FineTune, FrozenSvm, Joint, Trainer
from scail.trajectory import Chain, Step, Watch, trajectory

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Line:
    """A trajectory of the experiment, and the methods that are read from it."""

    title: str
    trainer: str
    select: Select | None
    memory: int
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Setup:
    """An experiment with everything settled: data loaded, states cut, memory and methods fixed."""

    experiment: Experiment
    dataset: Dataset
    states: tuple[State, ...]
    memory: int
    network: dict[str, int]
    """Feature size, parameters and floating-point operations of the network with all classes."""
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


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


def set_up(experiment: Experiment, dataset: Dataset | None = None) -> Setup:
    """Settle every open value, and check all of it before anything is trained.

    The data are loaded, unless `dataset` is given.
    """
    dataset = dataset or load_dataset(experiment.dataset, data_settings(experiment))
    if not 0 <= experiment.seed < 2**32:
        raise ValueError(f"seed is {experiment.seed}, expected 0 to {2**32 - 1}")
    order = class_order(experiment.class_order, dataset.class_names, experiment.seed, icarl=dataset.icarl)
    first = (len(order) + 1) // 2 if experiment.first_state == "half" else experiment.first_state
    states = split_into_states(dataset, experiment.states, order, first)
    if len(states) < 2:
        raise ValueError("1 state: an incremental run needs at least 2 (Full is the training on all classes at once)")
    memory = memory_size(experiment.memory, len(dataset.train))
    if experiment.threads < 1:
        raise ValueError(f"threads is {experiment.threads}, expected 1 or more")
    described = dict(_described(experiment.network, len(order), *dataset.shape))
    check_devices(experiment)
    methods, notes = choose_methods(experiment.methods, memory)
    notes = (*dataset.notes, *notes)
    alone = [s.index for s in states if len(s.class_names) == 1 and (s.index == 0 or memory == 0)]
    if alone and "deesil" in methods:
        reason = f"in state {alone[0]} only one class is at hand, and an SVM needs two"
        if "deesil" in (split_name(name)[0] for name in experiment.methods):
            raise ValueError(f"method deesil: {reason}; leave it out, or use larger states")
        methods, notes = tuple(m for m in methods if m != "deesil"), (*notes, f"DeeSIL is left out: {reason}")
    if 0 < memory < len(order):
        notes += (
            f"memory of {memory} images for {len(order)} classes: in the end only the earliest {memory} keep one",
        )
    past = states[-1].past_classes
    if "bic" in methods and 2 * memory <= 3 * past:
        notes += (
            f"BiC: with a memory of {memory} images for {past} past classes nothing can be held out in the last states",
        )
    lines = _lines(methods, experiment, memory)
    return Setup(experiment, dataset, states, memory, described, lines, notes)


def data_settings(experiment: Experiment) -> DataSettings:
    """What the experiment asks of its data set."""
    return DataSettings(**{field.name: getattr(experiment, field.name) for field in fields(DataSettings)})


@lru_cache(maxsize=16)  # the configurations of a grid have few networks
def _described(name: str, classes: int, channels: int, height: int, width: int) -> dict[str, int]:
    network = create_network(name, channels, classes, generator_for(0, "described"))
    return describe_network(network, height, width)


def describe(setup: Setup) -> str:
    """One line on what will be run."""
    data, experiment, network = setup.dataset, setup.experiment, setup.network
    shape = " x ".join(map(str, data.shape))
    sizes = sorted({len(state.class_names) for state in setup.states})
    new = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return (
        f"{data.name}: {len(data.class_names)} classes, {len(data.train)} training and {len(data.test)} test images "
        f"({data.split}) of {shape}; {len(setup.states)} states of {new} new classes, memory of {setup.memory} images; "
        f"{experiment.network}: {network['feature_size']} features, {network['parameters']:,} parameters, "
        f"{network['flops'] / 1e6:.1f} MFLOPs an image"
    )


def memory_size(memory: int | str, train_images: int) -> int:
    """B as a number of images; a share is rounded down.

    >>> memory_size("0.5%", 10_000)
    50
    """
    try:
        size = int(Fraction(memory.removesuffix("%")) * train_images / 100) if isinstance(memory, str) else memory
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"memory {memory!r}: expected a number of images, or a share as 2%") from None
    if size < 0:
        raise ValueError(f"memory is {memory}, expected 0 or more")
    return size


_TITLES = {
    "fine_tune": "FT", "balanced": "FT^BAL", "e2e": "E2E", "distill": "distillation", "bic": "BiC",
    "frozen_svm": "DeeSIL", "joint": "Full",
}  # fmt: skip


def _lines(methods: tuple[str, ...], experiment: Experiment, memory: int) -> tuple[Line, ...]:
    """The trajectories that these methods need, each with the methods that are read from it."""
    found: dict[tuple[str, Select | None, int], list[str]] = {}
    for name in methods:
        method = METHODS[name]
        if method.trainer == "joint" or method.without_memory or memory == 0:
            found.setdefault((method.trainer, None, 0), []).append(name)
            continue
        for select in _selects(name, experiment):
            found.setdefault((method.trainer, select, memory), []).append(name)
    lines = [
        Line(_title(trainer, select), trainer, select, kept, tuple(names))
        for (trainer, select, kept), names in found.items()
    ]
    # Longest first, so that processes end together.
    return tuple(
        sorted(
            lines, key=lambda line: (line.trainer != "fine_tune" or line.select == "herding", line.trainer != "joint")
        )
    )


def _selects(name: str, experiment: Experiment) -> tuple[Select, ...]:
    """How exemplars are chosen for this method: as named with it, else as the experiment says, else its own way."""
    named = [select for asked, select in map(split_name, experiment.methods) if asked == name]
    if named and None not in named:
        return tuple(dict.fromkeys(select for select in named if select))
    own = METHODS[name].select
    return experiment.select or ((own,) if own else ("random", "herding"))


def _title(trainer: str, select: Select | None) -> str:
    if trainer == "joint":
        return "Full"
    return f"{_TITLES[trainer]}, {f'{select} exemplars' if select else 'no memory'}"


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


def provenance_of(setup: Setup, device: str) -> dict[str, Any]:
    """What a number needs beside it to mean something."""
    experiment = setup.experiment
    names = [name for state in setup.states for name in state.class_names]
    return {
        "scail": version("scail"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device,
        "precision": experiment.precision,
        "threads": experiment.threads,
        "dataset": setup.dataset.name,
        "dataset_fingerprint": setup.dataset.fingerprint,
        "split": setup.dataset.split,
        "class_order_hash": hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16],
        "recipe": experiment.recipe,
        "averaging": AVERAGING,
    } | ({"ranks": experiment.ranks} if experiment.ranks > 1 else {})


@lru_cache(maxsize=1)
def commit_of_package() -> str | None:
    """The commit that this package is run from, with a plus where files were changed; None where it is installed."""
    place = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(place), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603

    try:
        if git("ls-files", "--error-unmatch", __file__) and (commit := git("rev-parse", "HEAD")):
            return commit + ("+" if git("status", "--porcelain", "--untracked-files=no", str(place)) else "")
    except (OSError, subprocess.SubprocessError):
        pass
    return None


def config_of(setup: Setup) -> dict[str, Any]:
    """The whole configuration, as it is written to `config.json`."""
    return {
        "experiment": asdict(setup.experiment),
        "memory": setup.memory,
        "class_order": [name for state in setup.states for name in state.class_names],
        "state_sizes": [len(state.class_names) for state in setup.states],
        "dataset": {
            "name": setup.dataset.name, "fingerprint": setup.dataset.fingerprint, "shape": setup.dataset.shape,
            "train_images": len(setup.dataset.train), "test_images": len(setup.dataset.test),
            "split": setup.dataset.split, "on_disk": not isinstance(setup.dataset.train.images, torch.Tensor),
            "notes": setup.dataset.notes,
        },
        "network": setup.network,
        "lines": [asdict(line) for line in setup.lines],
        "provenance": provenance_of(setup, "cpu" if setup.experiment.accelerator == "cpu" else "auto"),
        "command": sys.argv,
        "commit": commit_of_package(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip
