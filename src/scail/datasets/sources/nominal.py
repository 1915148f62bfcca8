"""The paper's data sets as numbers only: enough to plan what would be trained where the images are not at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.config import FILES_SIZE
from scail.config.recipes import PAPER_DATA
from scail.datasets.dataset import Dataset, Split
from scail.datasets.images.decode import Box


@dataclass(frozen=True)
class NominalImages:
    """Images that are not there: they can be counted and told apart by their numbers, not read."""

    name: str
    rows: Tensor
    size: int
    workers: int = 1

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor) -> NominalImages:
        return replace(self, rows=self.rows[rows])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of images, and channels, height and width of each."""
        return len(self), 3, self.size, self.size

    def stamp(self) -> bytes:
        """What tells these images from any others, real ones included."""
        return f"nominal {self.name} {self.size}".encode() + self.rows.numpy().tobytes()

    def read(self, i: int, choose: Callable[[int, int], Box]) -> NDArray[np.uint8]:  # noqa: ARG002
        """There is nothing to read."""
        raise ValueError(f"{self.name}: image {i} cannot be read, the data are not here: this set is for planning only")


def nominal_dataset(
    name: str, classes: int | None = None, images_per_class: int | None = None, image_size: int | None = None
) -> Dataset:
    """A data set of the paper by its published numbers, cut down as `load_dataset` would; images spread evenly."""
    if name not in PAPER_DATA:
        raise ValueError(f"data set {name!r}: no published numbers; known: {', '.join(PAPER_DATA)}")
    known, train, test = PAPER_DATA[name]
    kept, size = known if classes is None else classes, image_size or (32 if name == "cifar100" else FILES_SIZE)
    if not 2 <= kept <= known:
        raise ValueError(f"{name}: classes is {kept}, expected 2 to {known}")
    if size < 1 or (images_per_class is not None and images_per_class < 1):
        raise ValueError(f"{name}: images per class {images_per_class} and image size {size}: expected at least 1")

    def split(part: str, total: int, most: int | None) -> Split:
        counts = [total // known + (c < total % known) for c in range(kept)]
        counts = [min(count, most or count) for count in counts]
        labels = torch.arange(kept).repeat_interleave(torch.tensor(counts))
        return Split(NominalImages(f"{name}, {part}", torch.arange(len(labels)), size), labels)

    names = tuple(f"class {c}" for c in range(kept))
    return Dataset(name, names, split("train", train, images_per_class), split("test", test, None))
