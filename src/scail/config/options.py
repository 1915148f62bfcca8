"""The options of `scail run` and `scail grid`, defined once, and the experiment that they ask for.

The keys of a grid's file are options of `scail run`, too. An option that is not given is None: the recipe decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from scail.config.experiment import Experiment, Select
from scail.config.recipes import RECIPES
from scail.config.schedule import Schedule, Schedules

Number = Annotated[int | None, tyro.conf.arg(metavar="N")]


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Which images, in how many states, with how large a memory."""

    dataset: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = "glyphs"
    """Which images: a name (see `scail datasets`), hf:owner/name, or a folder or list file of your own."""
    states: Annotated[str, tyro.conf.arg(metavar="Z|SIZES")] = "10"
    """Z, the number of states of equal size; or the number of new classes in each, as 50,10,10,10,10,10."""
    first_state: Annotated[str | None, tyro.conf.arg(metavar="N|half")] = None
    """Classes in state 0, when it is larger: a number, or half. The rest is spread over the other states."""
    memory: Annotated[str, tyro.conf.arg(metavar="B")] = "2%"
    """B, the old images kept, over all classes: a number, or a share of the training images."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What both commands take: methods, network and schedules, and which part of the data."""

    methods: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Names separated by commas, as ft,scail (see `scail methods`). scail:herding means: with herding only. Default:
    all of them; in a grid, those of its table."""
    select: Literal["random", "herding", "both"] | None = None
    """How the old images to keep are chosen: at random, or by herding (those whose mean is closest to that of their
    class). both: one training each. Default: both for FT and what is read from it, and for every other method the way
    of its own paper; in a grid of the paper, as in its table."""
    recipe: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Network, epochs and learning rates. quick (the default): minutes on a CPU. cifar100-cpu: CIFAR-100 in hours on
    two cores. paper: the paper's own, for a GPU. paper-224: the same with small images scaled up. `scail recipes show
    NAME` prints every number."""
    epochs: Annotated[str | None, tyro.conf.arg(metavar="E|E0,E")] = None
    """Epochs of every training, as 5; or of state 0 (and Full) and of each later state, as 10,5."""
    batch_size: Number = None
    """Images in a batch, in every training."""
    network: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """resnet8, resnet8-half, resnet20, resnet32, resnet18-3x3, resnet18, or timm:<name> if timm is installed."""
    classes: Number = None
    """Only so many classes (glyphs: 100 by default, up to 134)."""
    images_per_class: Number = None
    """Only so many training images a class (glyphs: 100 by default)."""
    image_size: Number = None
    """Side of the images in pixels (by default glyphs: 20; cifar100: 32; image files: 64, or 224 in recipe paper)."""
    order: Annotated[str | None, tyro.conf.arg(metavar="seed|icarl|given|FILE")] = None
    """Order in which classes arrive: seed, icarl, given, or a file with one class name per line."""
    split: Literal["icarl", "official"] | None = None
    """ILSVRC: test on 50 images a class held out of the training folder (icarl), or on the validation images."""
    workers: Number = None
    """Threads that decode images (2)."""
    seed: Number = None
    """Same seed, same numbers (1)."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """Run so many seeds, from --seed on, and give means and standard deviations (1)."""
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] | None = None
    """Where to train (auto)."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] | None = None
    """Number format of the training (32-true)."""


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Where trainings and their results go: of the command, not of an experiment."""

    jobs: Number = None
    """Trainings at a time. Default: as the cores allow. Never changes a number."""
    logger: Literal["tensorboard", "wandb", "mlflow"] | None = None
    """Also send losses and accuracies there as they arrive: to logs/ in --out (pip install 'scail[tensorboard]')."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the results go. Default: a folder in runs/; a new one for every run, and always the same one for a grid,
    so that the same command goes on."""
    store: Annotated[str | None, tyro.conf.arg(metavar="DIR|URL")] = None
    """Where trained states are kept: a directory, or an object store as s3://bucket/states. Default: SCAIL_STORE, or
    the user's cache directory."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Several devices for one network: of a single run."""

    devices: Number = None
    """Train one network on so many devices of this machine (1); on CPUs, in so many processes. Each batch is shared out
    among them. Under torchrun: as many as it has started."""
    nodes: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Machines, each with --devices of them: the same command on every one, see docs/scaling.md."""
    sync_batch_norm: bool = False
    """Several GPUs: batch norm over the whole batch (torch's SyncBatchNorm) instead of each device's own images."""
    linear_scaling: bool = False
    """Several devices: a whole batch on each, and a learning rate as many times as high."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(DeviceOptions, TrainingOptions, StreamOptions):
    """Everything that can be asked for of one experiment."""

    lr: Annotated[float | None, tyro.conf.arg(metavar="RATE")] = None
    """Learning rate of state 0, Full and fine tuning; the recipe decides how it falls, and that of other trainers."""
    schedule: Annotated[str | None, tyro.conf.arg(metavar="NAME.WHAT=N,...")] = None
    """Other numbers of the recipe's schedules, as later.lr=0.05,distill.epochs=40. NAME says which training: first
    (state 0, Full), later (fine tuning), balanced, distill (iCaRL, LwF), bic-first, bic, bic-correction. WHAT is
    epochs, lr, batch-size, momentum, weight-decay, divide-by, patience or weight-decay-states."""
    keep_past_rows: bool = False
    """Keep the past rows of the linear layer instead of re-creating all of it in each state."""
    candidates: Annotated[str | None, tyro.conf.arg(metavar="N|all")] = None
    """ScaIL: how many past classes can be predicted for an image: a number (10), or all."""
    as_published: bool = False
    """ScaIL: read the factors as the authors' code does instead of as the paper writes them."""
    held_out: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    """Share of each class to test on, where a data set has no test images of its own (0.2)."""
    tune: bool = False
    """Test on --held-out of the training images and leave the test images alone: to choose settings."""
    split_seed: Number = None
    """Draws the images that are held out to test on (0); --seed does not change them."""
    images: Literal["auto", "memory", "disk"] = "auto"
    """Keep images in memory, padded and cropped; or decode regions of them from disk as they are needed. auto: from
    disk where they are larger than 64 pixels or fill more than 2 GiB."""
    broken: Literal["error", "skip"] | None = None
    """An image that cannot be read: stop and name it, or leave it out and count it (opens every image once)."""
    image_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """hf: the column of images, where it is not clear."""
    label_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """hf: the column of labels, where it is not clear."""
    threads: Number = None
    """CPU threads of one training (1 by default; DeeSIL's SVMs use all cores)."""
    keep_features: bool = False
    """Keep the test images' features in the store: other heads are then scored without the network."""


def experiment_of(options: RunOptions) -> Experiment:
    """The experiment that these options ask for: the recipe, with the given values in place of its own."""
    recipe = options.recipe or "quick"
    if recipe not in RECIPES:
        raise ValueError(f"--recipe {recipe}: expected {', '.join(RECIPES)}; see `scail recipes`")
    experiment = RECIPES[recipe](options.dataset)
    schedules = _with_numbers(options, experiment.recipe.schedules)
    states = _numbers("--states", options.states, "a number, or sizes as 50,10,10")
    memory = options.memory
    selects: tuple[Select, ...] | None = None
    if options.select is not None and options.select != "both":
        selects = (options.select,)
    asked: dict[str, Any] = {
        "states": states[0] if len(states) == 1 else states, "first_state": _first_state(options.first_state),
        "memory": memory if memory.endswith("%") else _number("--memory", memory, "a number, or a share as 2%"),
        "methods": tuple(name.strip() for name in _or(options.methods, "all").split(",") if name.strip()),
        "select": selects, "candidates": _candidates(options.candidates, experiment.heads.candidates),
        "as_published": options.as_published, "keep_past_rows": options.keep_past_rows, "tune": options.tune,
        "keep_features": options.keep_features, "nodes": options.nodes, "sync_batch_norm": options.sync_batch_norm,
        "linear_scaling": options.linear_scaling,
    }  # fmt: skip
    where_given: dict[str, Any] = {
        "network": options.network, "threads": options.threads, "classes": options.classes,
        "image_size": options.image_size, "images_per_class": options.images_per_class,
        "class_order": _order(options.order), "split": options.split, "held_out": options.held_out,
        "split_seed": options.split_seed, "workers": options.workers, "broken": options.broken,
        "image_column": options.image_column, "label_column": options.label_column, "devices": options.devices,
        "on_disk": None if options.images == "auto" else options.images == "disk", "seed": options.seed,
        "accelerator": options.accelerator, "precision": options.precision,
    }  # fmt: skip
    given = {name: value for name, value in where_given.items() if value is not None}
    experiment = replace(experiment, recipe=replace(experiment.recipe, schedules=schedules))
    return experiment.but(**asked, **given)


def _or(text: str | None, default: str) -> str:
    return default if text is None else text


def _with_numbers(options: RunOptions, schedules: Schedules) -> Schedules:
    """The recipe's schedules with the numbers that were given."""
    given = () if options.epochs is None else _numbers("--epochs", options.epochs, "E, or E0,E")
    if len(given) > 2:
        raise ValueError(f"--epochs {options.epochs}: expected E, or E0,E")
    numbers: list[tuple[str, str, float | None]] = [
        (name, "batch_size", options.batch_size) for name in schedules.trainings
    ]
    numbers += [(name, "lr", options.lr) for name in ("first", "bic_first", "later")]
    numbers += [_number_of(part, schedules) for part in filter(None, (options.schedule or "").split(","))]
    return schedules.with_epochs((given[0], given[-1]) if given else None).but(numbers)


def _number_of(text: str, schedules: Schedules) -> tuple[str, str, float]:
    """Which schedule is meant, what of it, and the new value: of `distill.lr=2`, say."""
    said, _, value = text.strip().partition("=")
    name, _, what = said.replace("-", "_").partition(".")
    if name not in schedules:
        names = ", ".join(schedules).replace("_", "-")
        raise ValueError(f"--schedule {text}: expected NAME.WHAT=N, as distill.lr=2, with a NAME of {names}")
    kinds = {field: kind for field, kind in get_type_hints(Schedule).items() if kind in (int, float)}
    try:
        return name, what, kinds[what](value)
    except KeyError:
        raise ValueError(f"--schedule {text}: expected one of {', '.join(kinds)} after {name}.") from None
    except ValueError:
        kind = "a whole number" if kinds[what] is int else "a number"
        raise ValueError(f"--schedule {text}: expected {kind} after =") from None


def _numbers(option: str, text: str, expected: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} {text}: expected {expected}") from None


def _number(option: str, text: str, expected: str) -> int:
    numbers = _numbers(option, text, expected)
    if len(numbers) != 1:
        raise ValueError(f"{option} {text}: expected {expected}")
    return numbers[0]


def _candidates(text: str | None, default: int | None) -> int | None:
    if text is None:
        return default
    if text == "all":
        return None
    count = _number("--candidates", text, "a number, or all")
    if count < 1:
        raise ValueError(f"--candidates {text}: expected 1 or more, or all")
    return count


def _order(text: str | None) -> str | tuple[str, ...] | None:
    if text is None or text in ("seed", "icarl", "given"):
        return text
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"--order {text}: expected seed, icarl, given, or a file with one class name per line")
    try:
        return tuple(line for line in path.read_text(encoding="utf-8-sig").splitlines() if line)
    except UnicodeDecodeError:
        raise ValueError(f"--order {text}: not a text file; expected one class name per line, in UTF-8") from None


def _first_state(text: str | None) -> int | Literal["half"] | None:
    if text is None or text == "half":
        return text  # type: ignore[return-value]
    return _number("--first-state", text, "a number of classes, or half")
