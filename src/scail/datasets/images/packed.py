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
from typing import Any

import numpy as np
import torch
from PIL import Image

from scail.datasets.dataset import Dataset, Found, Split
from scail.datasets.images.decode import BROKEN, BrokenImage, open_turned
from scail.datasets.images.on_disk import ImageTable, in_threads
from scail.storage.atomic import write_bytes, write_text
from scail.storage.lock import claim

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


def _begin(place: Path, about: dict[str, Any]) -> None:
    """The same copy may go on or be complete; anything else in this folder is left alone."""
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    claim(place, str(place), {ABOUT, PLAN}, "holds other files; give a new folder (--out)")
    for known in (place / ABOUT, place / PLAN):
        if known.exists() and known.read_text(encoding="utf-8") != text:
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
    content = file if isinstance(file, bytes) else Path(file).read_bytes()
    try:
        with Image.open(BytesIO(content)) as opened:
            if min(opened.size) <= size and opened.format in _KEPT:
                opened.load()  # a truncated one is not passed on
                return content
        image = open_turned(BytesIO(content), size)
    except BROKEN as error:
        name = f"row {int(images.rows[i])}" if isinstance(file, bytes) else file
        raise BrokenImage(f"{name}: cannot be read as an image ({error}); repair it, or use --broken skip") from error
    scale = min(1.0, size / min(image.size))
    sides = (max(1, math.floor(image.width * scale + 0.5)), max(1, math.floor(image.height * scale + 0.5)))
    written = BytesIO()
    image.resize(sides, Image.Resampling.BILINEAR).save(written, "JPEG", quality=quality)
    return written.getvalue()


def load_packed(folder: Path, size: int, workers: int) -> Found:
    """A packed copy, as the data set that it was made of."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    if about["version"] != VERSION:
        raise ValueError(f"{folder}: packed by another version of scail; make it again with `scail prepare`")
    train, test = (_mapped(folder, part, about["images"][part], size, workers) for part in ("train", "test"))
    facts = (about["split"], about["icarl"], tuple(about["notes"]))
    return Found(about["name"], tuple(about["class_names"]), train, test, *facts)


def _mapped(folder: Path, part: str, count: int, size: int, workers: int) -> Split:
    import pyarrow

    shards = sorted(folder.glob(f"{part}-*.arrow"))
    try:
        tables = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(shard))).read_all() for shard in shards]
        table = pyarrow.concat_tables(tables)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{folder}: a shard of {part} is damaged ({error}); remove it and {ABOUT}, and prepare it again"
        ) from error
    if len(table) != count:
        raise ValueError(f"{folder}: {len(table)} {part} images, expected {count}; prepare it again in a new folder")
    stamps = table.column("stamp").to_numpy().astype(np.uint64)
    labels = torch.from_numpy(table.column("label").to_numpy().copy())
    return Split(ImageTable(table.column("image"), stamps, torch.arange(count), size, workers), labels)
