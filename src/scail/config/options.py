"""The options of `scail run` and `scail grid`, defined once, and the experiment that they ask for.

The keys of a grid's file are options of `scail run`, too. An option that is not given is None: the recipe decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from scail.config.experiment import Experiment, Select
from scail.config.recipes import PRETRAINED_NETWORK, RECIPES
from scail.config.schedule import DECAYS, OPTIMIZERS, Schedule, Schedules

Number = Annotated[int | None, tyro.conf.arg(metavar="N")]


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Which images, in how many states, with how large a memory."""

    dataset: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = "glyphs"
    """Which images: a name of `scail datasets`, hf:owner/name, or the path of a folder or list file of your own."""
    states: Annotated[str | None, tyro.conf.arg(metavar="Z|SIZES")] = None
    """Z, the number of states, which are of equal size.
    Or the number of new classes in each state, as 50,25,25. Default: the recipe's, which is 10 (split-mnist: 5)."""
    first_state: Annotated[str | None, tyro.conf.arg(metavar="N|half")] = None
    """How many classes state 0 has, if more than the others: a number, or half. The other states share the rest."""
    memory: Annotated[str | None, tyro.conf.arg(metavar="B")] = None
    """B, how many images of past classes are kept in all: a number, or a share of the training images.
    20/class: as many of each class, from the start. 4MB: as many as fit, as raw pixels.
    Default: the recipe's, which is 2% (split-mnist: 100/class)."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What both commands take: methods, network and schedules, and which part of the data."""

    methods: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Which methods: names of `scail methods`, separated by commas. Default: all; in a grid, those of its table.
    A name can have a --select of its own, as scail:herding."""
    with_: Annotated[str | None, tyro.conf.arg(name="with", metavar="FILES")] = None
    """Methods of your own, beside scail's: Python files, or names that installed packages offer (see `scail methods`),
    separated by commas. A file is carried out: it can do whatever you can do. docs/how-to/own-method.md has an example.
    Example: --with my_method.py --methods mine,ft,scail"""
    select: Literal["random", "herding", "both"] | None = None
    """How the images that are kept of a class are chosen.
    random: by chance.
    herding: so that their mean feature is close to that of the class.
    both: FT, ScaIL and the other heads of fine tuning are measured both ways, any other method in the way of its paper.
    Default: both; in a grid of the paper, as in its table.
    Example: --select herding, for all methods. Fine tuning is then trained once, not twice."""
    recipe: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The named set of numbers to train with: network, epochs, learning rates and so on. Default: quick.
    quick: a small network and short trainings, for a CPU.
    cifar100-cpu: the paper's CIFAR-100 as far as a CPU goes.
    paper: the paper's own training, for a GPU.
    paper-224: the same for small images, scaled to 224 pixels.
    paper-code: as paper, but with gradients summed over micro-batches, as in the authors' public code.
    paper-bic: as paper, but BiC with the numbers of its own paper.
    pretrained: begins with a network that has seen the world, and moves it little.
    split-mnist: five states of two digits each, for a comparison with published numbers.
    Example: --dataset cifar100 --recipe paper. `scail recipes paper` prints every number, options below change some."""
    epochs: Annotated[str | None, tyro.conf.arg(metavar="E|E0,E")] = None
    """How many epochs every training has, as 10. Default: the recipe's.
    With the recipe quick a training has at most so many: it ends when its loss no longer falls.
    30,10: 30 in state 0 and for Full, 10 in later states. iCaRL and others that distil have 10 in all states."""
    batch_size: Number = None
    """Images in a batch, in every training. Default: the recipe's."""
    network: Annotated[str | None, tyro.conf.arg(metavar="NAME|pretrained", aliases=["--backbone"])] = None
    """The network: resnet8, resnet20, resnet32, resnet18-3x3, resnet18, or timm:<name> if timm is installed.
    resnet8x4 has four times as many channels (2 to 16; resnet20 and resnet32, too). resnet8-half and resnet8x4-half
    halve the image first.
    Or efficientnet-lite0, efficientnet-lite1, efficientnet-lite2. With @224 behind it the network scales images to 224
    pixels itself.
    pretrained: efficientnet-lite0@224 with weights learned on ImageNet. Frozen methods (ncm, slda, ridge, ranpac,
    fetril) then train nothing.
    Default: the recipe's."""
    weights: Annotated[str | None, tyro.conf.arg(metavar="FILE|pretrained", aliases=["--backbone-weights"])] = None
    """Weights that the network begins with: `pretrained`, or a safetensors file. Default: none, or the recipe's."""
    classes: Number = None
    """Take only the first N classes. Default: all (glyphs: 100 of 134)."""
    images_per_class: Number = None
    """Take only N training images of each class. Default: all (glyphs: 100)."""
    image_size: Number = None
    """Side of the images in pixels.
    Default: 20 for glyphs, 32 for cifar100, 64 for image files (224 with recipe paper)."""
    order: Annotated[str | None, tyro.conf.arg(metavar="seed|icarl|given|FILE")] = None
    """The order in which classes arrive. Default: the recipe's.
    seed: drawn by --seed. given: that of the data set.
    icarl: that of most papers, numpy's RandomState(1993). CIFAR-100 then begins with its classes 68, 56, 78, 8.
    iCaRL's own code has another order: 87, 0, 52, 58.
    FILE: one class name per line."""
    split: Literal["icarl", "official"] | None = None
    """ILSVRC: which images to test on. Default: icarl.
    icarl: 50 of each class, held out of the training folder. official: the validation images."""
    broken: Literal["error", "skip"] | None = None
    """What to do with an image that cannot be read. Default: error.
    error: stop and name it. skip: open every image once, leave the broken ones out, and count them."""
    workers: Number = None
    """Threads that decode images from disk. Default: 2."""
    seed: Number = None
    """Draws the order of classes, weights, batches and random exemplars. Same seed, same numbers. Default: 1."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """How many seeds to run, from --seed on. The table then has means and standard deviations. Default: 1."""
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] | None = None
    """Where to train. Default: auto, on a GPU if there is one."""
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] | None = None
    """Number format of the training. Default: auto, which is bf16-mixed where the device is quick at it (GPUs from
    Ampere on, processors with AVX-512 BF16 or AMX), else 32-true. Features and all that heads compute have 32 bits."""


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Where trainings and their results go: of the command, not of an experiment."""

    jobs: Number = None
    """How many trainings run at a time. Never changes a number. Default: as the cores allow."""
    logger: Literal["tensorboard", "wandb", "mlflow"] | None = None
    """Also send losses and accuracies there as they arrive. What stays on this machine goes to logs/ in --out.
    To install one: pip install 'scail[tensorboard]'."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the results go. Default: a folder in runs/.
    Each run has a new one; a grid always has the same one, so that the same command goes on."""
    store: Annotated[str | None, tyro.conf.arg(metavar="DIR|URL")] = None
    """Where trained states are kept: a folder, or an object store such as s3://bucket/states.
    Default: SCAIL_STORE, or the user's cache folder."""
    no_thumbnails: bool = False
    """Leave small pictures of the images that were learned out of the page."""
    no_image_cache: bool = False
    """Keep no decoded copies of small images in the user's cache folder. They make later runs begin sooner."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Several devices for one network: of a single run."""

    devices: Number = None
    """How many devices of this machine train one network together; on CPUs, how many processes.
    Each batch is shared out among them. Default: 1, or as many as torchrun has started."""
    nodes: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """How many machines train together, each with its --devices. Start the same command on all: see
    docs/how-to/several-devices.md."""
    sync_batch_norm: bool = False
    """Several GPUs: batch norm over the whole batch. Without this, each device normalises its own images."""
    linear_scaling: bool = False
    """Several devices: each has a whole batch, and the learning rate is multiplied by their number."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(DeviceOptions, TrainingOptions, StreamOptions):
    """Everything that can be asked for of one experiment."""

    lr: Annotated[float | None, tyro.conf.arg(metavar="RATE")] = None
    """Learning rate at the start of state 0, of Full and of fine tuning. Default: the recipe's.
    Other trainings have rates of their own: see --schedule."""
    schedule: Annotated[str | None, tyro.conf.arg(metavar="NAME.WHAT=N,...")] = None
    """Change a number of one training. Example: later.lr=0.05,distill.epochs=40,later.divide_by_state=no.
    NAME is the training. first: state 0, and Full. later: fine tuning after state 0.
    balanced: the last step of FT^BAL and E2E. distill: iCaRL, FT^distill, iCaRL^duet and LwF.
    bic-first, bic and bic-correction: BiC's state 0, later states, and second stage. lucir, wa, podnet: these methods;
    podnet-classifier: PODNet's last step. threshold-moving: this method. der, der-classifier: DER, and its last step.
    m2kd, m2kd-pruned: M2KD, and its second step. fearnet-base, fearnet-sleep: FearNet's memory in state 0, and later.
    der-pruned: DER^pruned. packnet, packnet-retraining: PackNet, and what follows its pruning. progressive,
    growing-brain, generative-replay: these methods. generator: its image generators.
    WHAT is what to change. Numbers: epochs, lr, batch_size, momentum, weight_decay, divide_by, patience,
    weight_decay_states, micro_batch, passes, window, gain. Yes or no: divide_by_state, sum_micro_batches.
    backbone_rate: 0.1 lets all but the linear layer learn at a tenth of the rate; features then move less.
    milestones: epochs with a plus between, as 30+60. distillation: weights of its terms, as 1+3; of
    distill: its temperature.
    pruned: the share that PackNet gives up after each state. critic_steps: of an image generator.
    decay: plateau, steps, cosine or settle. settle ends when the loss no longer falls. optimizer: sgd or adam."""
    keep_past_rows: bool = False
    """Fine tuning: past classes keep their rows of the linear layer, a row being the weights of one class.
    Without this, each state begins a new layer."""
    few_negatives: bool = False
    """DeeSIL: the SVM of a class learns against at most B images of other classes, as in its authors' script.
    Without this, against all images at hand: those of the new classes, and the exemplars."""
    candidates: Annotated[str | None, tyro.conf.arg(metavar="N|all")] = None
    """ScaIL: how many past classes can be predicted for an image: a number, or all. Default: 10."""
    as_published: bool = False
    """ScaIL: compute the factors as the authors' code does. Without this, as the paper writes them."""
    held_out: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    """Share of each class to test on, if the data set has no test images of its own. Default: 0.2."""
    tune: bool = False
    """To choose settings: test on --held-out of the training images, and leave the test images alone."""
    split_seed: Number = None
    """Draws the images that are held out. --seed does not change them. Default: 0."""
    images: Literal["auto", "memory", "disk"] = "auto"
    """memory: keep all images in memory. disk: decode regions of them from disk when they are needed.
    auto: disk, if images are larger than 64 pixels or fill more than 2 GiB."""
    image_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """hf: the column of images, if there are several that it could be."""
    label_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """hf: the column of labels, if there are several that it could be."""
    threads: Number = None
    """CPU threads of one training; DeeSIL's SVMs use all cores. Another number changes the last bits. Default: 1."""
    keep_features: bool = False
    """Keep the features of test images in the store. Other heads are then scored without the network."""


def experiment_of(options: RunOptions) -> Experiment:
    """The experiment that these options ask for: the recipe, with the given values in place of its own."""
    recipe = options.recipe or "quick"
    if recipe not in RECIPES:
        raise ValueError(f"--recipe {recipe}: expected {', '.join(RECIPES)}; see `scail recipes`")
    experiment = RECIPES[recipe](options.dataset)
    schedules = _with_numbers(options, experiment.recipe.schedules)
    states = (
        _numbers("--states", options.states, "a number, or sizes as 50,10,10") if options.states is not None else ()
    )
    memory = None if options.memory is None else options.memory.strip()
    selects: tuple[Select, ...] | None = None
    if options.select is not None and options.select != "both":
        selects = (options.select,)
    asked: dict[str, Any] = {
        "first_state": _first_state(options.first_state),
        "methods": tuple(name.strip() for name in _or(options.methods, "all").split(",") if name.strip()),
        "own_methods": own_places(options.with_),
        "select": selects, "candidates": _candidates(options.candidates, experiment.heads.candidates),
        "as_published": options.as_published, "keep_past_rows": options.keep_past_rows, "tune": options.tune,
        "few_negatives": options.few_negatives, "keep_features": options.keep_features, "nodes": options.nodes,
        "sync_batch_norm": options.sync_batch_norm, "linear_scaling": options.linear_scaling,
    }  # fmt: skip
    where_given: dict[str, Any] = {
        "states": states[0] if len(states) == 1 else states or None,
        "memory": int(memory) if memory is not None and memory.lstrip("-").isdigit() else memory,
        **_network(options), "threads": options.threads, "classes": options.classes,
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


def own_places(text: str | None) -> tuple[str, ...]:
    """The files and names that `--with` gives."""
    return tuple(dict.fromkeys(place.strip() for place in (text or "").split(",") if place.strip()))


def _network(options: RunOptions) -> dict[str, str | None]:
    if options.network != "pretrained":
        return {"network": options.network, "weights": options.weights}
    if options.weights not in (None, "pretrained"):
        raise ValueError(
            f"--network pretrained and --weights {options.weights}: give the network's own name with a file"
        )
    return {"network": PRETRAINED_NETWORK, "weights": "pretrained"}


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


def _number_of(text: str, schedules: Schedules) -> tuple[str, str, Any]:
    """Which schedule is meant, what of it, and the new value: of `distill.lr=2`, say."""
    said, _, value = text.strip().partition("=")
    name, _, what = said.replace("-", "_").partition(".")
    if name not in schedules:
        names = ", ".join(schedules).replace("_", "-")
        raise ValueError(f"--schedule {text}: expected NAME.WHAT=N, as distill.lr=2, with a NAME of {names}")
    kinds = get_type_hints(Schedule)
    if what not in kinds:
        raise ValueError(f"--schedule {text}: expected one of {', '.join(kinds)} after {name}.")
    read, expected = _VALUES[what if what in _VALUES else kinds[what]]
    try:
        return name, what, read(value)
    except (KeyError, ValueError):
        raise ValueError(f"--schedule {text}: expected {expected} after =") from None


def _one_of(known: tuple[str, ...], text: str) -> str:
    if text not in known:
        raise ValueError
    return text


_VALUES: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    bool: (lambda text: {"yes": True, "no": False}[text.lower()], "yes or no"),
    "decay": (partial(_one_of, DECAYS), f"one of {', '.join(DECAYS)}"),
    "optimizer": (partial(_one_of, OPTIMIZERS), f"one of {', '.join(OPTIMIZERS)}"),
    "milestones": (
        lambda text: tuple(int(epoch) for epoch in text.split("+") if epoch),
        "epochs with a plus between, as 30+60",
    ),
    "pruned": (float, "a share, as 0.75"),
    "distillation": (
        lambda text: tuple(float(weight) for weight in text.split("+") if weight),
        "weights with a plus between, as 1+3",
    ),
}
"""How the values of a schedule are read, by kind or by name, and what is expected."""


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
