"""A packed copy of a data set: its images scaled down, in a few large Arrow files that are mapped, not read.

`scail.json` says what it is; `train-00000.arrow` and so on hold images (a JPEG each), labels and stamps, and can be
opened with Hugging Face `datasets` too. Shards that are complete are not made again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from PIL import Image

from scail.datasets.dataset import Dataset, Found, Icarl, Split
from scail.datasets.images.decode import BROKEN, MOST_BYTES, BrokenImage, open_image, open_turned
from scail.datasets.images.on_disk import ImageTable, in_threads
from scail.datasets.places import check_tables
from scail.storage.atomic import write_bytes, write_text
from scail.storage.flushing import flush
from scail.storage.lock import claim
from scail.storage.reading import MOST_RECORD, read_bounded, read_json, read_text, why
from scail.storage.records import decode

ABOUT, PLAN = "scail.json", "unfinished.json"
_SHARD = 2000  # images: some 50 MB at 256 pixels
_KEPT = {"JPEG", "PNG", "WEBP", "PPM"}  # small images of these kinds stay as they are
VERSION = 1


def is_packed(folder: Path) -> bool:
    """Whether this folder is a finished packed copy."""
    return (folder / ABOUT).is_file()


def pack(
    dataset: Dataset, place: Path, size: int, quality: int, progress: Callable[[int], None] = lambda count: None
) -> None:
    """Write a copy whose shorter sides have at most `size` pixels; one that was begun before goes on."""
    about = {
        "version": VERSION, "name": dataset.name, "size": size, "quality": quality, "source": dataset.fingerprint,
        "class_names": dataset.class_names, "split": dataset.split, "icarl": dataset.icarl,
        "notes": [*dataset.notes, f"packed copy: shorter side at most {size} pixels, JPEG quality {quality}"],
        "images": {"train": len(dataset.train), "test": len(dataset.test)},
    }  # fmt: skip
    check_tables(place)
    _begin(place, about)
    for part, split in (("train", dataset.train), ("test", dataset.test)):
        assert isinstance(split.images, ImageTable)
        for n, begin in enumerate(range(0, len(split), _SHARD)):
            rows = torch.arange(begin, min(begin + _SHARD, len(split)))
            shard = place / f"{part}-{n:05}.arrow"
            if not shard.is_file():
                write_bytes(shard, _shard(split.images[rows], split.labels[rows], size, quality))
            progress(len(rows))
    (place / PLAN).replace(place / ABOUT)
    flush(place)


def _begin(place: Path, about: dict[str, Any]) -> None:
    """The same copy may go on or be complete; anything else in this folder is left alone."""
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    claim(place, str(place), {ABOUT, PLAN}, "holds other files; give a new folder (--out)")
    for known in (place / ABOUT, place / PLAN):
        if known.exists() and read_text(known, MOST_RECORD) != text:
            raise ValueError(f"{place}: holds a packed copy of other data or settings; give another folder (--out)")
    write_text(place / PLAN, text)


def _shard(images: ImageTable, labels: torch.Tensor, size: int, quality: int) -> bytes:
    import datasets
    import pyarrow

    packed = list(in_threads(lambda i: _smaller(images, i, size, quality), range(len(images)), images.workers))
    stamps = [int.from_bytes(hashlib.sha256(content).digest()[:7], "little") for content in packed]
    kinds = {"image": datasets.Image(), "label": datasets.Value("int64"), "stamp": datasets.Value("int64")}
    column = pyarrow.StructArray.from_arrays(
        [pyarrow.array(packed, pyarrow.binary()), pyarrow.nulls(len(packed), pyarrow.string())], ["bytes", "path"]
    )
    values = [column, pyarrow.array(labels.numpy()), pyarrow.array(stamps, pyarrow.int64())]
    table = pyarrow.Table.from_arrays(values, schema=datasets.Features(kinds).arrow_schema)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _smaller(images: ImageTable, i: int, size: int, quality: int) -> bytes:
    """A JPEG of the image with its shorter side scaled to `size`; a small image as it is."""
    file = images.file(i)
    try:
        content = file if isinstance(file, bytes) else read_bounded(Path(file), MOST_BYTES)
        with open_image(BytesIO(content)) as opened:
            if min(opened.size) <= size and opened.format in _KEPT:
                opened.load()  # a truncated one is not passed on
                return content
        return _as_jpeg(open_turned(BytesIO(content), size), size, quality)
    except BROKEN as error:
        name = f"row {int(images.rows[i])}" if isinstance(file, bytes) else file
        said = f"{name}: cannot be read as an image ({why(error)})"
        raise BrokenImage(f"{said}; repair it, or use --broken skip") from error


def _as_jpeg(image: Image.Image, size: int, quality: int) -> bytes:
    scale = min(1.0, size / min(image.size))
    sides = (max(1, math.floor(image.width * scale + 0.5)), max(1, math.floor(image.height * scale + 0.5)))
    written = BytesIO()
    image.resize(sides, Image.Resampling.BILINEAR).save(written, "JPEG", quality=quality)
    return written.getvalue()


def load_packed(folder: Path, size: int, workers: int) -> Found:
    """A packed copy, as the data set that it was made of."""
    check_tables(folder)
    place = folder / ABOUT
    about: _About = decode(_About, read_json(place), str(place))
    if about["version"] != VERSION:
        raise ValueError(f"{folder}: packed by another version of scail; make it again with `scail prepare`")
    count = len(about["class_names"])
    train, test = (_mapped(folder, part, about["images"][part], count, size, workers) for part in ("train", "test"))
    facts = (about["split"], about["icarl"], tuple(about["notes"]))
    return Found(about["name"], tuple(about["class_names"]), train, test, *facts)


class _Counts(TypedDict):
    train: int
    test: int


class _About(TypedDict):
    """What `scail.json` says."""

    version: int
    name: str
    class_names: list[str]
    split: str
    icarl: Icarl
    notes: list[str]
    images: _Counts


def _mapped(folder: Path, part: str, count: int, classes: int, size: int, workers: int) -> Split:
    import pyarrow

    shards = sorted(folder.glob(f"{part}-*.arrow"))
    try:
        tables = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(shard))).read_all() for shard in shards]
        table = pyarrow.concat_tables(tables)
        table.validate(full=True)
        images, labels, stamps = (table.column(name) for name in ("image", "label", "stamp"))
        without = sum(chunk.null_count + chunk.field("bytes").null_count for chunk in images.chunks)
        if without or labels.null_count or stamps.null_count:
            raise ValueError("has rows without an image or a label")
        found = torch.from_numpy(labels.to_numpy().astype(np.int64))
    except (pyarrow.ArrowException, OSError, LookupError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder}: a shard of {part} is damaged ({why(error)}); remove it and {ABOUT}, and prepare it again"
        ) from error
    if len(table) != count:
        raise ValueError(f"{folder}: {len(table)} {part} images, expected {count}; prepare it again in a new folder")
    if count and not 0 <= int(found.min()) <= int(found.max()) < classes:
        raise ValueError(f"{folder}: {part} has labels of classes that there are not; prepare it again")
    rows, where = torch.arange(count), f"{folder}, {part}"
    return Split(ImageTable(images, stamps.to_numpy().astype(np.uint64), rows, size, workers, where), found)
