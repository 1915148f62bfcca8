"""`cifar100`: 100 classes of 32 x 32 colour photographs, from Parquet files in the layout of the Hub."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scail.datasets.cache import cached_tensors
from scail.datasets.dataset import Dataset, Split


def cifar100_dir() -> Path:
    """The folder `cifar100` inside `SCAIL_DATA`."""
    return Path(os.environ.get("SCAIL_DATA", "data")) / "cifar100"


def load_cifar100() -> Dataset:
    """Read `SCAIL_DATA/cifar100/{train,test}-*.parquet`; decoded once, then kept in the cache."""
    folder = cifar100_dir()
    files = {part: sorted(map(str, folder.glob(f"{part}-*.parquet"))) for part in ("train", "test")}
    if not all(files.values()):
        raise ValueError(
            f"cifar100: no train-*.parquet and test-*.parquet in {folder}; put the Parquet files of the Hub's "
            "uoft-cs/cifar100 there, and set SCAIL_DATA to the folder that holds cifar100/"
        )
    from datasets import Dataset as Table
    from datasets import Features
    from pyarrow import parquet

    stamp = [(Path(f).name, Path(f).stat().st_size, Path(f).stat().st_mtime_ns) for f in files["train"] + files["test"]]

    def decode() -> dict[str, Tensor]:
        return {
            f"{part}_{name}": tensor
            for part in ("train", "test")
            for name, tensor in zip(("images", "labels"), _decode(Table(parquet.read_table(files[part]))), strict=True)
        }

    tensors = cached_tensors(f"cifar100-{hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]}", decode)
    schema = Features.from_arrow_schema(parquet.read_schema(files["train"][0]))
    splits = [Split(tensors[f"{part}_images"], tensors[f"{part}_labels"]) for part in ("train", "test")]
    return Dataset("cifar100", tuple(schema["fine_label"].names), splits[0], splits[1])


def _decode(rows: Any) -> tuple[Tensor, Tensor]:
    images = np.stack([np.asarray(image.convert("RGB")) for image in rows["img"]])
    labels = torch.tensor(rows["fine_label"], dtype=torch.int64)
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), labels
