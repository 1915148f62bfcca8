"""Data sets of the Hugging Face hub that are on this machine, and folders in the hub's layout (Parquet files)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scail.datasets.dataset import Found, Split
from scail.datasets.images.on_disk import ImageTable, hash_number, stamp_of_content
from scail.datasets.places import check_tables, hub_folder, missing, reads_tables
from scail.datasets.sources.hub_folder import check_folder, inside, labels_of
from scail.storage.cache import cache_dir
from scail.storage.reading import why

Columns = tuple[str | None, str | None]
"""Names of the columns of images and labels; None: found by their kind."""
_TEST_NAMES = ("test", "validation", "valid", "val")
_LABEL_NAMES = ("label", "labels", "fine_label", "class", "category", "target")
_PART = re.compile(r"-(\w+?)(?:-\d{5}-of-\d{5})?\.arrow$")  # name-train.arrow, name-train-00000-of-00002.arrow


def load_hub(name: str, size: int, workers: int, columns: Columns = (None, None)) -> Found:
    """`hf:owner/name`, or `hf:owner/name/configuration`: as it was downloaded before."""
    repository = "/".join(name.removeprefix("hf:").split("/")[:2])
    configuration = name.removeprefix("hf:").removeprefix(repository).strip("/") or None
    folder = hub_folder(repository)
    if folder is None and not reads_tables():
        raise missing(f"hf:{repository}")
    tables = _from_folder(folder, configuration) if folder else _prepared(repository, configuration)
    if not tables:
        raise missing(f"hf:{repository}")
    return _found(name.removeprefix("hf:"), tables, size, workers, columns, _roots(folder))


def load_hub_folder(folder: Path, name: str, size: int, workers: int, columns: Columns = (None, None)) -> Found:
    """A folder with Parquet files as the hub has them."""
    return _found(name, _from_folder(folder, None), size, workers, columns, _roots(folder))


def _roots(folder: Path | None) -> list[Path]:
    """Where images may be that are not in the tables themselves."""
    from datasets import config

    if folder is None:  # what the library prepared: unpacked beside its tables
        return [Path(config.HF_DATASETS_CACHE), Path(config.DOWNLOADED_DATASETS_PATH)]
    # A snapshot of the Hub is a folder of links to files beside it.
    return [folder, *([folder.parents[1]] if folder.parent.name == "snapshots" else [])]


def _from_folder(folder: Path, configuration: str | None) -> dict[str, Any]:
    check_tables(folder)
    import datasets

    check_folder(folder)
    try:
        return dict(datasets.load_dataset(str(folder), configuration, cache_dir=str(cache_dir() / "huggingface")))
    except Exception as error:  # the library raises whatever it likes
        raise ValueError(f"{folder}: cannot be read as a data set of the Hub: {why(error)}") from error


def _prepared(repository: str, configuration: str | None) -> dict[str, Any]:
    """What `datasets.load_dataset` left in its cache: one folder of Arrow files per configuration and version."""
    from datasets import Dataset as Table
    from datasets import concatenate_datasets, config

    place = Path(config.HF_DATASETS_CACHE) / repository.replace("/", "___")
    kept = sorted(place.glob(f"{configuration or '*'}/*/*/dataset_info.json"), key=lambda path: path.stat().st_mtime)
    if not kept:
        return {}
    found = dict[str, list[Any]]()
    for file in sorted(kept[-1].parent.glob("*.arrow")):
        if part := _PART.search(file.name):
            found.setdefault(part[1], []).append(Table.from_file(str(file)))
    return {part: concatenate_datasets(shards) for part, shards in found.items()}


def _found(
    name: str, tables: dict[str, Any], size: int, workers: int, columns: Columns, roots: Sequence[Path]
) -> Found:
    if "train" not in tables:
        raise ValueError(f"{name}: has the parts {', '.join(tables)}, expected one named train")
    image, label = find_columns(name, tables["train"].features, columns)

    def split(part: str) -> Split:
        where = f"{roots[0]}, {part}"
        images = table_of_column(inside(tables[part].data.column(image), roots), size, workers, where)
        return Split(images, _labels(tables[part], label, names))

    with _named(name):
        own = next((part for part in _TEST_NAMES if part in tables and _has_labels(tables[part], label)), None)
    with _named(f"{name}, train"):
        names = class_names(tables["train"], label)
        train = split("train")
    with _named(f"{name}, {own}"):
        test = split(own) if own else None
    return Found(name, names, train, test, split=f"its own {own} images" if own else "")


@contextlib.contextmanager
def _named(place: str) -> Iterator[None]:
    """What is wrong with a table is told with its name. pyarrow has a dozen kinds of errors."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{place}: {why(error)}") from error


def _has_labels(table: Any, label: str) -> bool:
    """Test parts of competitions have none: -1, or nothing."""
    return label in table.features and not {None, -1} & set(table.unique(label))


def find_columns(name: str, features: Any, given: Columns) -> tuple[str, str]:
    """The columns of images and labels: as given, or found by their kind."""
    from datasets import ClassLabel, Image, Value

    images = [column for column, feature in features.items() if isinstance(feature, Image)]
    named = [c for c in _LABEL_NAMES if c in features and isinstance(features[c], ClassLabel | Value)]
    labels = [column for column, feature in features.items() if isinstance(feature, ClassLabel)] or named
    labels = [column for column in labels if column in named][:1] or labels  # of several, one with a usual name
    found = list[str]()
    for what, asked, candidates in (("image", given[0], images), ("label", given[1], labels)):
        if asked is not None and asked not in features:
            raise ValueError(f"{name}: no column {asked!r}; it has {', '.join(features)}")
        if asked is None and len(candidates) != 1:
            raise ValueError(
                f"{name}: which column has the {what}s? It has {', '.join(features)}: give --{what}-column"
            )
        found.append(asked or candidates[0])
    return found[0], found[1]


def class_names(table: Any, label: str) -> tuple[str, ...]:
    """The names of the labels; where they are plain values, those, sorted."""
    feature = table.features[label]
    if hasattr(feature, "names"):
        return tuple(feature.names)
    return tuple(str(value) for value in sorted(set(labels_of(table.data.column(label), None))))


def _labels(table: Any, label: str, names: tuple[str, ...]) -> Tensor:
    known = names if hasattr(table.features[label], "names") else None
    values = labels_of(table.data.column(label), known)
    if known is None:
        number = {name: c for c, name in enumerate(names)}
        if strange := {str(value) for value in values} - set(names):
            raise ValueError(f"class {min(strange)!r} has test images but no training images")
        values = [number[str(value)] for value in values]
    return torch.tensor(values, dtype=torch.int64)


def table_of_column(column: Any, size: int, workers: int, place: str) -> ImageTable:
    """An Arrow column of images; each is told apart by its length and some of its bytes."""
    stamps = np.fromiter(_stamps(column), np.uint64, len(column))
    return ImageTable(column, stamps, torch.arange(len(column)), size, workers, place)


def _stamps(column: Any) -> Iterable[int]:
    from pyarrow import compute

    for chunk in column.chunks:
        whole, paths = chunk.field("bytes"), chunk.field("path")
        lengths = compute.binary_length(whole)
        for n in range(len(chunk)):
            length = lengths[n].as_py()
            if length is None:
                path = Path(paths[n].as_py())
                yield hash_number(repr((path.name, path.stat().st_size, path.stat().st_mtime_ns)))
            else:
                yield stamp_of_content(memoryview(whole[n].as_buffer()))
