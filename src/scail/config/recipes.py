"""What a configuration is, and the named ones: every hyper-parameter stands here, none is hidden in code.

Light on purpose: nothing here imports torch, so that `--help` stays quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

Select = Literal["random", "herding"]


@dataclass(frozen=True)
class Schedule:
    """One training by SGD: how long, how fast, and how the learning rate falls."""

    epochs: int
    lr: float
    batch_size: int
    momentum: float = 0.9
    weight_decay: float = 5e-4
    decay: Literal["plateau", "steps", "cosine"] = "plateau"
    """plateau: divide when the training loss stops falling; steps: after given epochs; cosine: down to zero."""
    divide_by: float = 10
    """plateau, steps: by how much the rate is divided."""
    patience: int = 10
    """plateau: how many epochs the mean training loss may fail to improve."""
    milestones: tuple[int, ...] = ()
    """steps: after how many epochs the rate is divided."""
    divide_by_state: bool = False
    """In state k, start at lr / (k + 1)."""
    weight_decay_states: int = 0
    """With Z here, weight_decay * Z / (k + 1) in state k, as in BiC's public code; 0: the same in all states."""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}, expected 1 or more")
        if not 0 < self.lr < float("inf") or self.batch_size < 1:
            raise ValueError(f"lr {self.lr} and batch size {self.batch_size}: expected numbers above 0")
        if not 0 <= self.momentum < 1 or not 0 <= self.weight_decay < float("inf"):
            raise ValueError(
                f"momentum {self.momentum}, weight decay {self.weight_decay}: expected a momentum from 0 to below 1, "
                "and a decay of 0 or more"
            )
        if not self.divide_by > 0 or self.patience < 0 or self.weight_decay_states < 0:
            raise ValueError(
                f"divide by {self.divide_by}, patience {self.patience}, weight decay states "
                f"{self.weight_decay_states}: expected a number above 0 to divide by, and 0 or more of the others"
            )


FILES_SIZE = 64
"""Side of image files in pixels, where nothing else is asked for."""


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which part of a data set, how it is cut into training and test images, and how it is read."""

    classes: int | None = None
    """How many classes; None: all (glyphs: 100)."""
    images_per_class: int | None = None
    """At most so many training images a class; None: all (glyphs: 100)."""
    image_size: int | None = None
    """Side of the images; None: as the data set has it (glyphs: 20, cifar100: 32, image files: 64)."""
    split: Literal["icarl", "official"] = "icarl"
    """ILSVRC: 50 images a class held out of the training folder, or the official validation images."""
    held_out: float = 0.2
    """Share of each class that becomes test images, where a data set has none of its own."""
    tune: bool = False
    """Test on `held_out` of the training images of each class and leave the test images alone: to choose settings."""
    split_seed: int = 0
    """Draws the images that are held out: the same for every seed of the training."""
    on_disk: bool | None = None
    """Decode images when they are needed; None: where they are larger than 64 pixels or fill more than 2 GiB."""
    broken: Literal["error", "skip"] = "error"
    """An image that cannot be read: stop, or leave it out and count it."""
    image_column: str | None = None
    label_column: str | None = None
    """Columns of a data set of the Hub; None: found by their kind."""
    workers: int = 2
    """Threads that decode images; they change no pixel."""

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ValueError(f"held out is {self.held_out}, expected a share between 0 and 1")
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}, expected 1 or more")
        if self.image_size is not None and not 8 <= self.image_size <= 1024:
            raise ValueError(f"image size is {self.image_size}, expected 8 to 1024 pixels")


@dataclass(frozen=True, kw_only=True)
class Experiment(DataSettings):
    """One configuration: data, stream, memory, methods, network and schedules."""

    first_schedule: Schedule
    """State 0, and Full."""
    later_schedule: Schedule
    """Fine tuning in states 1, 2, ..."""
    balanced_schedule: Schedule
    """FT^BAL and E2E: the balanced step."""
    distill_schedule: Schedule
    """iCaRL, FT^distill, iCaRL^duet and LwF, in every state."""
    bic_first_schedule: Schedule
    """BiC in state 0."""
    bic_schedule: Schedule
    """BiC's stage 1 in states 1, 2, ..."""
    bic_correction_schedule: Schedule
    """BiC's stage 2: alpha and beta only."""
    network: str
    dataset: str = "glyphs"
    states: int | tuple[int, ...] = 10
    """Z, the number of states; or how many classes are new in each."""
    first_state: int | Literal["half"] | None = None
    """How many classes are new in state 0, or half of them; None: as many as in the others."""
    class_order: str | tuple[str, ...] = "seed"
    """seed, icarl, given, or the class names in order of arrival."""
    memory: int | str = "2%"
    """B, the exemplars in memory over all classes: a number, or a share of the training images."""
    methods: tuple[str, ...] = ("all",)
    select: tuple[Select, ...] | None = None
    """How exemplars are chosen; None: both ways on FT's trajectory, and as in its own paper for every other method."""
    candidates: int | None = 10
    """ScaIL: how many past classes can be predicted for an image; None: all."""
    as_published: bool = False
    """ScaIL: read the factors as the authors' code does, not as the paper writes them."""
    keep_past_rows: bool = False
    """Fine tuning: keep the past rows of the linear layer instead of re-creating all of it in each state."""
    padding: int = 4
    """Pixels added on each side before the random crop."""
    seed: int = 1
    threads: int = 1
    """CPU threads of one training. They change the order of additions, so they belong to the configuration."""
    keep_features: bool = False
    """Keep the features of the test images in the store: other heads are then scored without the network."""
    accelerator: str = "auto"
    precision: str = "32-true"
    devices: int = 1
    """Devices of one training on each node. The batch is shared out among all; they change bits, as threads do."""
    nodes: int = 1
    sync_batch_norm: bool = False
    """Several devices: normalise with the statistics of the whole batch instead of each device's own images."""
    linear_scaling: bool = False
    """Several devices: a whole batch on each, and a learning rate as many times as high."""
    recipe: str = "quick"
    """The name of the recipe that this configuration started from."""

    @property
    def ranks(self) -> int:
        """Processes that train one network together, one for each device."""
        return self.devices * self.nodes


SCHEDULES: dict[str, tuple[str, ...]] = {
    "joint": ("first_schedule",),
    "frozen_svm": ("first_schedule",),
    "fine_tune": ("first_schedule", "later_schedule"),
    "balanced": ("first_schedule", "later_schedule", "balanced_schedule"),
    "e2e": ("first_schedule", "later_schedule", "balanced_schedule"),
    "distill": ("distill_schedule",),
    "bic": ("bic_first_schedule", "bic_schedule", "bic_correction_schedule"),
}
"""Which schedules of an experiment each trainer uses: the others change none of its numbers."""


TRAININGS = ("first", "later", "balanced", "distill", "bic_first", "bic")
"""The schedules that go through images, by their short names; BiC's correction goes through stored scores only."""


def with_number(experiment: Experiment, name: str, what: str, value: float) -> Experiment:
    """The same with one number of a schedule changed: of `distill`, say, `lr`."""
    changed = replace(getattr(experiment, f"{name}_schedule"), **{what: value})
    return replace(experiment, **{f"{name}_schedule": changed})


def with_epochs(experiment: Experiment, epochs: int | tuple[int, int] | None) -> Experiment:
    """The same with other numbers of epochs: of every state, or of the first and of the later ones."""
    if epochs is None:
        return experiment
    first, later = (epochs, epochs) if isinstance(epochs, int) else epochs
    for name in TRAININGS:
        experiment = with_number(experiment, name, "epochs", first if "first" in name else later)
    return experiment


SMALL_IMAGES = ("glyphs", "digits", "cifar100")
"""Data sets of small images: the paper's CIFAR-100 column is theirs."""


PAPER_DATA: dict[str, tuple[int, int, int]] = {
    "ilsvrc": (1000, 1_281_167 - 50_000, 50_000),  # iCaRL's split holds 50 images a class out
    "vggface2": (1000, 491_746, 50_000),
    "landmarks": (1000, 374_367, 20_000),
    "cifar100": (100, 50_000, 10_000),
}
"""The paper's data sets: classes, training images, test images."""


def quick(dataset: str = "glyphs") -> Experiment:
    """Fits a CPU: ResNet-8, a few short trainings."""
    first = Schedule(epochs=16, lr=0.1, batch_size=32, decay="cosine")
    later = Schedule(epochs=8, lr=0.1, batch_size=32, decay="cosine", divide_by_state=True)
    return Experiment(
        recipe="quick",
        dataset=dataset,
        network="resnet8",
        padding=2 if dataset in ("glyphs", "digits") else 4,
        first_schedule=first,
        later_schedule=later,
        balanced_schedule=Schedule(epochs=8, lr=0.01, batch_size=32, decay="cosine", divide_by_state=True),
        distill_schedule=Schedule(epochs=10, lr=4.0, batch_size=32, weight_decay=1e-5, decay="cosine"),
        bic_first_schedule=first,
        bic_schedule=Schedule(epochs=8, lr=0.05, batch_size=32, weight_decay=2e-4, decay="cosine"),
        bic_correction_schedule=Schedule(epochs=100, lr=0.1, batch_size=32, weight_decay=0.0, decay="cosine"),
    )


def cifar100_cpu(dataset: str = "cifar100") -> Experiment:
    """The paper's CIFAR-100 as far as two cores go: a small ResNet, 200 images a class, the memory in proportion."""
    base = quick(dataset)  # epochs below: in ten states every trainer goes through about as many images as fine tuning
    first = replace(base.first_schedule, epochs=30)
    return replace(
        base,
        recipe="cifar100-cpu",
        network="resnet8-half",
        images_per_class=200,
        first_schedule=first,
        later_schedule=replace(base.later_schedule, epochs=12),
        balanced_schedule=replace(base.balanced_schedule, lr=0.1),
        distill_schedule=replace(base.distill_schedule, epochs=14),
        bic_first_schedule=first,
        bic_schedule=replace(base.bic_schedule, epochs=12, lr=0.1),
    )


def paper(dataset: str = "glyphs") -> Experiment:
    """The paper's training: ResNet-18; for small images its CIFAR-100 column with a 3x3 stem, for others 224 pixels."""
    if dataset in SMALL_IMAGES:
        return _paper_small(dataset)
    steps = Schedule(epochs=100, lr=0.1, batch_size=256, weight_decay=1e-4, decay="steps", milestones=(30, 60, 80, 90))
    return Experiment(
        recipe="paper",
        dataset=dataset,
        network="resnet18",
        image_size=224,
        class_order="icarl",
        first_schedule=Schedule(epochs=100, lr=0.1, batch_size=256, weight_decay=1e-4, patience=10),
        later_schedule=Schedule(epochs=35, lr=0.1, batch_size=256, weight_decay=1e-4, patience=5, divide_by_state=True),
        balanced_schedule=Schedule(
            epochs=15, lr=0.01, batch_size=256, weight_decay=1e-4, patience=5, divide_by_state=True
        ),
        distill_schedule=Schedule(
            epochs=60,
            lr=2.0,
            batch_size=128,
            weight_decay=1e-5,
            decay="steps",
            divide_by=5,
            milestones=(20, 30, 40, 50),
        ),
        bic_first_schedule=steps,
        bic_schedule=steps,
        bic_correction_schedule=Schedule(
            epochs=200, lr=0.1, batch_size=256, weight_decay=0.0, decay="steps", milestones=(60, 120, 160, 180)
        ),
    )


def paper_224(dataset: str = "cifar100") -> Experiment:
    """The paper's training for small images as the authors' scripts have it: 7x7 stem, images scaled to 224 pixels."""
    return replace(_paper_small(dataset), recipe="paper-224", network="resnet18", image_size=224)


def _paper_small(dataset: str) -> Experiment:
    bic = Schedule(epochs=250, lr=0.1, batch_size=128, weight_decay=2e-4, decay="steps", milestones=(100, 150, 200))
    return Experiment(
        recipe="paper",
        dataset=dataset,
        network="resnet18-3x3",
        class_order="icarl",
        first_schedule=Schedule(epochs=300, lr=0.1, batch_size=128, patience=60),
        later_schedule=Schedule(epochs=60, lr=0.1, batch_size=128, patience=15, divide_by_state=True),
        balanced_schedule=Schedule(epochs=30, lr=0.01, batch_size=128, patience=15, divide_by_state=True),
        distill_schedule=Schedule(
            epochs=70, lr=2.0, batch_size=128, weight_decay=1e-5, decay="steps", divide_by=5, milestones=(49, 63)
        ),
        bic_first_schedule=bic,
        bic_schedule=bic,
        bic_correction_schedule=Schedule(
            epochs=500, lr=0.1, batch_size=128, weight_decay=0.0, decay="steps", milestones=(200, 300, 400)
        ),
    )


DEFAULT_METHOD, WITHOUT_MEMORY = "icarl_duet", "lwf"
"""What a classifier that keeps learning uses with a memory and without one: method `auto`."""


def learning(images: int, pixels: int, network: str, started: bool = False) -> Experiment:
    """For a classifier that keeps learning: how long it trains goes by how many images its first state has,
    and how far they are shifted by their size. `started`: it begins with weights that know something, and moves less.

    A later state starts from a fixed rate, not from one divided by the number of the state: nobody knows how many
    states will come, and a class that comes as the hundredth is to be learned like the second. Past rows of the linear
    layer are kept: better for all heads of fine tuning but SLDA.
    """
    small = network in ("resnet8", "resnet8-half", "resnet20", "resnet32")
    passes, least, most = (25_000, 16, 80) if small else (50_000, 30, 60)
    epochs = min(most, max(least, -(-passes // max(1, images))))
    batch, decay = (32, 5e-4) if small else (64, 1e-4)
    pace = 0.1 if started else 1.0
    first = Schedule(epochs=epochs, lr=0.1 * pace, batch_size=batch, weight_decay=decay, decay="cosine")
    later = replace(first, epochs=max(8, epochs // 2), lr=0.05 * pace)
    distill = replace(first, epochs=max(10, epochs // 2), lr=(4.0 if small else 2.0) * pace, weight_decay=1e-5)
    return Experiment(
        recipe="learning",
        network=network,
        keep_past_rows=True,
        padding=min(4, max(1, pixels // 8)),
        first_schedule=first,
        later_schedule=later,
        balanced_schedule=replace(later, lr=0.005 * pace),
        distill_schedule=distill,
        bic_first_schedule=first,
        bic_schedule=replace(later, weight_decay=2e-4 if small else 1e-4),
        bic_correction_schedule=Schedule(epochs=100, lr=0.1, batch_size=32, weight_decay=0.0, decay="cosine"),
    )


RECIPES: dict[str, Callable[[str], Experiment]] = {
    "quick": quick,
    "cifar100-cpu": cifar100_cpu,
    "paper": paper,
    "paper-224": paper_224,
}
