"""`cifar100`: 100 classes of 32 x 32 colour photographs, in the layout of the Hub or as the original archive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scail.config import DataSettings
from scail.datasets.catalog import DATASETS
from scail.datasets.dataset import Found, Split
from scail.datasets.images.on_disk import table_of_contents
from scail.datasets.places import NotHere, data_dir
from scail.datasets.sources.hub import load_hub, load_hub_folder
from scail.datasets.sources.plain_pickle import NotPlain, read_plain
from scail.storage.reading import MIB, read_bounded
from scail.storage.unpacking import read_members

_ARCHIVE = "cifar-100-python"
_MOST = 512 * MIB  # bytes of a file; the largest has 155 million


def load(place: Path | None, settings: DataSettings) -> Found | None:
    """From its folder (Parquet files or the original archive), or from the cache of the Hub."""
    size, workers, columns = settings.image_size or 32, settings.workers, ("img", "fine_label")
    if place and next(place.rglob("*.parquet"), None):
        return load_hub_folder(place, "cifar100", size, workers, columns)
    for folder in (place, data_dir()):
        if folder and (files := _original_files(folder)):
            return _from_original(files, size, workers)
    try:
        found = load_hub(f"hf:{DATASETS['cifar100'].hub}", size, workers, columns)
    except NotHere:
        return None
    return Found("cifar100", found.class_names, found.train, found.test, found.split)


def _original_files(place: Path) -> dict[str, tuple[str, bytes]] | None:
    """`train`, `test` and `meta` of the original, unpacked or inside its archive: where each is, and its content."""
    names = ("train", "test", "meta")
    for folder in (place / _ARCHIVE, place):
        if all((folder / name).is_file() for name in names):
            return {name: (str(folder / name), read_bounded(folder / name, _MOST)) for name in names}
    archive = place / f"{_ARCHIVE}.tar.gz"
    if not archive.is_file():
        return None
    members = {f"{_ARCHIVE}/{name}": name for name in names}
    found = read_members(archive, members.get, _MOST)
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"{archive}: not the archive of CIFAR-100, it has no {missing[0]}; get it again")
    return {name: (f"{archive}, {name}", found[name]) for name in names}


def _from_original(files: dict[str, tuple[str, bytes]], size: int, workers: int) -> Found:
    names = read_original(*files["meta"], {b"fine_label_names": list})[b"fine_label_names"]
    if not all(isinstance(name, bytes) for name in names):
        raise ValueError(f"{files['meta'][0]}: not a file of CIFAR-100 (names that are no texts); get it again")
    texts = tuple(name.decode("utf-8", "replace") for name in names)
    train, test = (_split(*files[part], len(texts), size, workers) for part in ("train", "test"))
    return Found("cifar100", texts, train, test, split="its own test images")


def _split(place: str, content: bytes, classes: int, size: int, workers: int) -> Split:
    found = read_original(place, content, {b"data": np.ndarray, b"fine_labels": list})
    rows, labels = found[b"data"], found[b"fine_labels"]
    sound = all(type(label) is int and 0 <= label < classes for label in labels)
    if rows.shape != (len(labels), 3072) or not sound:
        raise ValueError(
            f"{place}: not a file of CIFAR-100 ({len(labels)} labels for images of {rows.shape}, expected numbers of "
            f"{classes} classes, and 3072 bytes for each); get it again"
        )
    # Plain PPM files: nothing is compressed again, and they are read like any other image.
    images = [b"P6 32 32 255\n" + row.reshape(3, 1024).T.tobytes() for row in rows]
    return Split(table_of_contents(images, size, workers), torch.tensor(labels).long())


def read_original(place: str, content: bytes, expected: Mapping[bytes, type]) -> dict[bytes, Any]:
    """One file of the original archive, a pickle of plain values and arrays; nothing in it can be run."""
    try:
        read: dict[bytes, Any] = read_plain(content)
        for key, kind in expected.items():
            if not isinstance(read.get(key), kind):
                raise NotPlain(f"has no {key.decode()}")
    except NotPlain as error:
        raise ValueError(f"{place}: not a file of CIFAR-100 ({error}); get the archive again") from error
    return read
