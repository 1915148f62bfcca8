"""`mnist`: handwritten digits, 28 x 28 pixels, from the four IDX files under their original names, gzipped or not."""

from __future__ import annotations

from math import prod
from pathlib import Path

import torch
from torch import Tensor

from scail.config import DataSettings
from scail.datasets.dataset import Dataset, Split
from scail.storage.reading import MIB, size_text
from scail.storage.unpacking import read_unpacked

_FILES = {"train": "train", "test": "t10k"}
_IMAGES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
_MOST = 1024 * MIB  # bytes; the images of the original have 47 million
_BYTES = 8  # the kind of number in an IDX file: unsigned bytes


def load(place: Path | None, settings: DataSettings) -> Dataset | None:
    """All images; None where the files are missing. Their size cannot be chosen."""
    found = {part: _split(place, name) for part, name in _FILES.items()} if place else {}
    train, test = found.get("train"), found.get("test")
    if train is None or test is None:
        return None
    if settings.image_size is not None:
        raise ValueError(f"image size {settings.image_size}: mnist has its own, 28 pixels")
    return Dataset("mnist", tuple("0123456789"), train, test, mirror=False)


def _split(place: Path, part: str) -> Split | None:
    files = [_file(place, f"{part}-{kind}") for kind in (_IMAGES, _LABELS)]
    if files[0] is None or files[1] is None:
        return None
    images, labels = read_idx(files[0], 3), read_idx(files[1], 1)
    if len(images) != len(labels) or not len(labels) or int(labels.max()) > 9:
        raise ValueError(
            f"{files[1]}: {len(labels)} labels up to {int(labels.max()) if len(labels) else '-'} for {len(images)} "
            "images; expected one label for each, 0 to 9"
        )
    return Split(images[:, None], labels.long())


def _file(place: Path, name: str) -> Path | None:
    """Some copies have a dot in place of the dash before `idx`."""
    for spelled in (name, name.replace("-idx", ".idx")):
        for path in (place / spelled, place / f"{spelled}.gz"):
            if path.is_file():
                return path
    return None


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The unsigned bytes of an IDX file, which has so many dimensions."""
    begin = 4 + 4 * dimensions
    head = read_unpacked(path, begin - 1)
    if len(head) < begin or head[:4] != bytes((0, 0, _BYTES, dimensions)):
        raise ValueError(f"{path}: not an IDX file of unsigned bytes in {dimensions} dimensions; get it again")
    shape = [int.from_bytes(head[i : i + 4], "big") for i in range(4, begin, 4)]
    if (count := prod(shape)) > _MOST:
        raise ValueError(f"{path}: the shape {shape} is too large, expected at most {size_text(_MOST)}; get it again")
    values = read_unpacked(path, begin + count)[begin:]
    if len(values) != count:
        more = "more than " if len(values) > count else ""
        raise ValueError(f"{path}: {more}{min(len(values), count)} bytes for the shape {shape}; get it again")
    return torch.frombuffer(bytearray(values), dtype=torch.uint8).reshape(shape) if count else torch.empty(shape)
