"""What every data set is: named classes, training and test images, and a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.datasets.images.decode import Box


class ImagesOnDisk(Protocol):
    """Images that are not in memory: they can be counted, chosen and told apart, and are decoded where needed."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of images, and channels, height and width of each as the network will see it."""
        ...

    @property
    def workers(self) -> int:
        """Threads that decode."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor) -> Self: ...

    def read(self, i: int, choose: Callable[[int, int], Box]) -> NDArray[np.uint8]:
        """height x width x 3: the region of image i that `choose(its width, its height)` picks, scaled."""
        ...

    def stamp(self) -> bytes:
        """What tells these very images, in this order and at this size, from any others."""
        ...


Images = Tensor | ImagesOnDisk
"""uint8, N x channels x height x width; or as many images on disk."""


@dataclass(frozen=True)
class Split:
    """N images and their labels (int64)."""

    images: Images
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


Icarl = Literal["direct", "positions", "unknown"]
"""How iCaRL's shuffle of the classes is read: it lists them, it gives each its position, or their ids are not known."""


@dataclass(frozen=True)
class Found:
    """A data set as it was found, before it is cut down and decoded; without `test`, some images are held out."""

    name: str
    class_names: tuple[str, ...]
    train: Split
    test: Split | None
    split: str = ""
    icarl: Icarl = "direct"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """A labelled set of images, train and test apart; labels index `class_names`."""

    name: str
    class_names: tuple[str, ...]
    train: Split
    test: Split
    mirror: bool = True
    """Whether a mirrored image still belongs to its class (photographs: yes; characters: no)."""
    split: str = "its own test images"
    """How training and test images were told apart: stands beside every number."""
    icarl: Icarl = "direct"
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""

    def __post_init__(self) -> None:
        if len(set(self.class_names)) != len(self.class_names):
            raise ValueError(f"data set {self.name!r}: two classes have the same name; names must be unique")
        for part, split in (("training", self.train), ("test", self.test)):
            self._check(part, split)

    def _check(self, part: str, split: Split) -> None:
        count, where = len(self.class_names), f"data set {self.name!r}"
        kind = split.images.dtype if isinstance(split.images, Tensor) else torch.uint8
        if kind != torch.uint8 or len(split.images.shape) != 4 or len(split.images) != len(split.labels):
            raise ValueError(
                f"{where}: {part} images {tuple(split.images.shape)} of {kind} with {len(split.labels)} "
                "labels: expected uint8, N x channels x height x width, and N labels"
            )
        outside = split.labels[(split.labels < 0) | (split.labels >= count)]
        if len(outside):
            raise ValueError(f"{where}: a {part} label is {int(outside[0])}, expected 0 to {count - 1}")
        counts = torch.bincount(split.labels, minlength=count)
        empty = [self.class_names[c] for c in (counts == 0).nonzero().flatten().tolist()]
        if empty:
            raise ValueError(
                f"{where}: no {part} images for class(es) {', '.join(map(repr, empty[:5]))}"
                f"{' ...' if len(empty) > 5 else ''}; remove the class or add images of it"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def on_disk(self) -> bool:
        """Whether its images are decoded when they are needed."""
        return not isinstance(self.train.images, Tensor)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every image, label and class name: two data sets with one fingerprint are the same."""
        digest = hashlib.sha256(repr((self.class_names, self.shape)).encode())
        for split in (self.train, self.test):
            digest.update(fingerprint_of(split.images, split.labels).encode())
        return digest.hexdigest()[:16]


def fingerprint_of(images: Images, labels: Tensor) -> str:
    """A hash of these very images and labels, in this order."""
    digest = hashlib.sha256(images.contiguous().numpy().data if isinstance(images, Tensor) else images.stamp())
    digest.update(labels.contiguous().numpy().data)
    return digest.hexdigest()[:16]
