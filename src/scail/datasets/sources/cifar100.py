"""`cifar100`: 100 classes of 32 x 32 colour photographs, in the layout of the Hub or as the original archive."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scail.config import DataSettings
from scail.datasets.catalog import DATASETS
from scail.datasets.dataset import Found, Split
from scail.datasets.places import data_dir
from scail.datasets.sources.hub import load_hub, load_hub_folder, table_of_column

_ARCHIVE = "cifar-100-python"
# What the arrays in the original files are made of, under the names of old and new versions of numpy.
_HARMLESS = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")} | {
    (f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")
}


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
    except ValueError:
        return None
    return Found("cifar100", found.class_names, found.train, found.test, found.split)


def _original_files(place: Path) -> dict[str, bytes] | None:
    """`train`, `test` and `meta` of the original, unpacked or inside its archive."""
    names = ("train", "test", "meta")
    for folder in (place / _ARCHIVE, place):
        if all((folder / name).is_file() for name in names):
            return {name: (folder / name).read_bytes() for name in names}
    archive = place / f"{_ARCHIVE}.tar.gz"
    if not archive.is_file():
        return None
    try:
        with tarfile.open(archive) as opened:
            members = {name: opened.extractfile(f"{_ARCHIVE}/{name}") for name in names}
            return {name: member.read() for name, member in members.items() if member}
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
        raise ValueError(f"{archive}: not the archive of CIFAR-100 ({error}); get it again") from error


def _from_original(files: dict[str, bytes], size: int, workers: int) -> Found:
    import pyarrow

    names = [name.decode() for name in read_original("meta", files["meta"])[b"fine_label_names"]]
    parts = []
    for part in ("train", "test"):
        content = read_original(part, files[part])
        # Plain PPM files: nothing is compressed again, and they are read like any other image.
        images = [b"P6 32 32 255\n" + row.reshape(3, 1024).T.tobytes() for row in content[b"data"]]
        column = pyarrow.StructArray.from_arrays(
            [pyarrow.array(images, pyarrow.large_binary()), pyarrow.nulls(len(images), pyarrow.string())],
            ["bytes", "path"],
        )
        labels = torch.tensor(np.asarray(content[b"fine_labels"], np.int64))
        parts.append(Split(table_of_column(pyarrow.chunked_array([column]), size, workers), labels))
    return Found("cifar100", tuple(names), parts[0], parts[1], split="its own test images")


class _OnlyArrays(pickle.Unpickler):
    """Reads numbers, strings, lists and arrays; anything else a pickle could ask for is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """One of the few functions that rebuild an array."""
        if (module, name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"asks for {module}.{name}")
        return super().find_class(module, name)


def read_original(name: str, content: bytes) -> dict[bytes, Any]:
    """One file of the original archive, a pickle of plain values and arrays; nothing in it can be run."""
    try:
        read: dict[bytes, Any] = _OnlyArrays(io.BytesIO(content), encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, AttributeError, IndexError, TypeError) as error:
        raise ValueError(f"{_ARCHIVE}/{name}: not a file of CIFAR-100 ({error}); get the archive again") from error
    if not isinstance(read, dict):
        raise ValueError(f"{_ARCHIVE}/{name}: not a file of CIFAR-100; get the archive again")
    return read
