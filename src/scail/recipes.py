"""What a configuration is, and the named ones: every hyper-parameter stands here, none is hidden in code.

Light on purpose: nothing here imports torch, so that `--help` stays quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    decay: Literal["plateau", "cosine"] = "plateau"
    """plateau: divide by ten when the training loss stops falling; cosine: down to zero over the training."""
    patience: int = 10
    """plateau: how many epochs the mean training loss may fail to improve."""
    divide_by_state: bool = False
    """In state k, start at lr / (k + 1)."""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}, expected 1 or more")
        if self.lr <= 0 or self.batch_size < 1:
            raise ValueError(f"lr {self.lr} and batch size {self.batch_size}: expected numbers above 0")


@dataclass(frozen=True)
class Experiment:
    """One configuration: data, stream, memory, methods, network and schedules."""

    first_schedule: Schedule
    """State 0, and Full."""
    later_schedule: Schedule
    """Fine tuning in states 1, 2, ..."""
    network: str
    dataset: str = "glyphs"
    classes: int | None = None
    """How many classes; None: all (glyphs: 100)."""
    images_per_class: int | None = None
    """How many training images a class; None: all (glyphs: 100)."""
    image_size: int | None = None
    """Side of the drawn images (glyphs only); None: 20."""
    states: int | tuple[int, ...] = 10
    """Z, the number of states; or how many classes are new in each."""
    first_state: int | Literal["half"] | None = None
    """How many classes are new in state 0, or half of them; None: as many as in the others."""
    class_order: str | tuple[str, ...] = "seed"
    """seed, icarl, given, or the class names in order of arrival."""
    memory: int | str = "2%"
    """B, the exemplars in memory over all classes: a number, or a share of the training images."""
    methods: tuple[str, ...] = ("all",)
    select: tuple[Select, ...] = ("random", "herding")
    """How exemplars are chosen."""
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
    recipe: str = "quick"
    """The name of the recipe that this configuration started from."""


def quick(dataset: str = "glyphs") -> Experiment:
    """Fits a CPU: ResNet-8, a few short trainings."""
    return Experiment(
        recipe="quick",
        dataset=dataset,
        network="resnet8",
        padding=2 if dataset in ("glyphs", "digits") else 4,
        first_schedule=Schedule(epochs=20, lr=0.1, batch_size=32, decay="cosine"),
        later_schedule=Schedule(epochs=10, lr=0.1, batch_size=32, decay="cosine", divide_by_state=True),
    )


def paper(dataset: str = "glyphs") -> Experiment:
    """The paper's training for small images (its CIFAR-100 column): ResNet-18 with a 3x3 stem, hundreds of epochs."""
    return Experiment(
        recipe="paper",
        dataset=dataset,
        network="resnet18-3x3",
        class_order="icarl",
        first_schedule=Schedule(epochs=300, lr=0.1, batch_size=128, patience=60),
        later_schedule=Schedule(epochs=60, lr=0.1, batch_size=128, patience=15, divide_by_state=True),
    )


RECIPES: dict[str, Callable[[str], Experiment]] = {"quick": quick, "paper": paper}
