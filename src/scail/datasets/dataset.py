"""What every data set is: named classes, training and test images, and a fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Images and their labels: `images` is uint8, N x channels x height x width; `labels` int64, N."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A labelled set of images, train and test apart; labels index `class_names`."""

    name: str
    class_names: tuple[str, ...]
    train: Split
    test: Split
    mirror: bool = True
    """Whether a mirrored image still belongs to its class (photographs: yes; characters: no)."""

    def __post_init__(self) -> None:
        for part, split in (("training", self.train), ("test", self.test)):
            counts = torch.bincount(split.labels, minlength=len(self.class_names))
            if len(counts) > len(self.class_names):
                raise ValueError(
                    f"data set {self.name!r}: a {part} label is {len(counts) - 1}, "
                    f"but there are only {len(self.class_names)} classes (labels 0 to {len(self.class_names) - 1})"
                )
            empty = [self.class_names[c] for c in (counts == 0).nonzero().flatten().tolist()]
            if empty:
                raise ValueError(
                    f"data set {self.name!r}: no {part} images for class(es) {', '.join(map(repr, empty[:5]))}"
                    f"{' ...' if len(empty) > 5 else ''}; remove the class or add images of it"
                )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every pixel, label and class name: two data sets with one fingerprint are the same."""
        digest = hashlib.sha256(repr((self.class_names, self.shape)).encode())
        for split in (self.train, self.test):
            digest.update(fingerprint_of(split.images, split.labels).encode())
        return digest.hexdigest()[:16]


def fingerprint_of(images: Tensor, labels: Tensor) -> str:
    """A hash of these very images and labels, in this order."""
    digest = hashlib.sha256(images.contiguous().numpy().tobytes())
    digest.update(labels.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
