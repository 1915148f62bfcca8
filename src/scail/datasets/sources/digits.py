"""`digits`: the scans of handwritten digits that scikit-learn ships, 8 x 8 pixels. Very small, and real."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from scail.config import DataSettings
from scail.datasets.dataset import Dataset, Split
from scail.storage.cache import cached_tensors

_TEST_EVERY = 5  # every fifth scan of a class is a test image: about 144 train and 36 test images a class


def load(_place: Path | None, settings: DataSettings) -> Dataset:
    """All of them; their size cannot be chosen."""
    if settings.image_size is not None:
        raise ValueError(f"image size {settings.image_size}: digits has its own, 8 pixels")
    return load_digits()


def load_digits() -> Dataset:
    """The ten digits; always the same fifth of each class is held out for the test."""
    scans = cached_tensors(f"digits-{version('scikit-learn')}", _read)  # importing scikit-learn takes a second
    images, labels = scans["images"], scans["labels"]
    nth_of_class = torch.zeros_like(labels)
    for c in range(10):
        nth_of_class[labels == c] = torch.arange(int((labels == c).sum()))
    held_out = nth_of_class % _TEST_EVERY == 0
    train = Split(images[~held_out], labels[~held_out])
    test = Split(images[held_out], labels[held_out])
    return Dataset("digits", tuple("0123456789"), train, test, mirror=False)


def _read() -> dict[str, Tensor]:
    from sklearn import datasets

    scans = datasets.load_digits()
    images = torch.from_numpy((scans.images * (255 / 16)).round().astype(np.uint8)).unsqueeze(1)
    return {"images": images, "labels": torch.from_numpy(scans.target.astype(np.int64))}
