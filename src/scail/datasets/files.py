"""Image folders and list files of one's own, decoded once and kept as uint8 in memory.

A folder has one sub-folder per class, or `train/` and `test/` (or `val/`) folders of that kind. A list file has one
`path label` per line. Without test images of their own, a share of each class is held out by seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from scail.datasets.cache import cached_tensors
from scail.datasets.dataset import Dataset, Split
from scail.seeding import generator_for

ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
DEFAULT_SIZE = 64
_TEST_NAMES = ("test", "val", "validation")
Labelled = tuple[Path, str]


def load_files(place: Path, image_size: int | None = None, held_out: float = 0.2, seed: int = 0) -> Dataset:
    """The images of a folder or list file, `image_size` pixels square (64 by default), in colour."""
    size = DEFAULT_SIZE if image_size is None else image_size
    if not 8 <= size <= 512:
        raise ValueError(f"image size is {size}, expected 8 to 512 pixels")
    train, test = _of_list(place) if place.is_file() else _of_folder(place)
    if not train:
        raise ValueError(f"{place}: no images found ({', '.join(sorted(ENDINGS))}) in folders of classes")
    if not test:
        train, test = _hold_out(train, held_out, seed)
    names = tuple(sorted({label for _, label in train}))
    strange = sorted({label for _, label in test} - set(names))
    if strange:
        raise ValueError(f"{place}: class {strange[0]!r} has test images but no training images")
    images = {part: _decode_all(pairs, size) for part, pairs in (("train", train), ("test", test))}
    number = {name: c for c, name in enumerate(names)}
    splits = [
        Split(images[part], torch.tensor([number[label] for _, label in pairs]))
        for part, pairs in (("train", train), ("test", test))
    ]
    return Dataset(place.resolve().stem, names, splits[0], splits[1])


def _of_folder(place: Path) -> tuple[list[Labelled], list[Labelled]]:
    inner = {
        child.name: child for child in sorted(place.iterdir()) if child.is_dir() and not child.name.startswith(".")
    }
    test = next((inner[name] for name in _TEST_NAMES if name in inner), None)
    if "train" in inner and test is not None:
        return _classes_of(inner["train"]), _classes_of(test)
    return _classes_of(place), []


def _classes_of(place: Path) -> list[Labelled]:
    """Every image below each class folder, in a fixed order."""
    return [
        (path, folder.name)
        for folder in sorted(place.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in ENDINGS
    ]


def _of_list(place: Path) -> tuple[list[Labelled], list[Labelled]]:
    """Lines of `path label`; `train.lst` beside `val.lst` or `test.lst` brings its own test images."""
    for name in _TEST_NAMES:
        other = place.with_name(place.name.replace("train", name))
        if other != place and other.is_file():
            return _lines_of(place), _lines_of(other)
    return _lines_of(place), []


def _lines_of(place: Path) -> list[Labelled]:
    pairs = []
    for number, line in enumerate(place.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        path, _, label = line.strip().rpartition(" ")
        if not path:
            raise ValueError(f"{place}, line {number}: {line!r}: expected a path and a label")
        pairs.append((place.parent / path.strip(), label))
    return pairs


def _hold_out(pairs: Sequence[Labelled], share: float, seed: int) -> tuple[list[Labelled], list[Labelled]]:
    """A share of each class, at least one image, drawn by seed."""
    train, test = list[Labelled](), list[Labelled]()
    for label in sorted({label for _, label in pairs}):
        mine = [pair for pair in pairs if pair[1] == label]
        if len(mine) < 2:
            raise ValueError(f"class {label!r} has one image: at least two are needed, one to train and one to test")
        order = torch.randperm(len(mine), generator=generator_for(seed, "held out", label)).tolist()
        count = max(1, round(share * len(mine)))
        test += [mine[i] for i in sorted(order[:count])]
        train += [mine[i] for i in sorted(order[count:])]
    return train, test


def _decode_all(pairs: Sequence[Labelled], size: int) -> Tensor:
    try:
        stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path, _ in pairs]
    except FileNotFoundError as error:
        raise ValueError(f"{error.filename}: no such image") from error
    name = f"files-{hashlib.sha256(repr((stamps, size)).encode()).hexdigest()[:16]}"

    def decode() -> dict[str, Tensor]:
        return {"images": torch.from_numpy(np.stack([decode_image(path, size) for path, _ in pairs]))}

    return cached_tensors(name, decode)["images"].permute(0, 3, 1, 2).contiguous()


def decode_image(path: Path, size: int) -> NDArray[np.uint8]:
    """size x size x 3: turned as its EXIF data say, in colour, the middle square, scaled."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (size, size))  # JPEG: decode no more pixels than needed
            turned = ImageOps.exif_transpose(image)
            if turned.mode.startswith("I;16") or turned.mode in ("I", "F"):  # 16 bits: keep the upper eight
                turned = Image.fromarray((np.asarray(turned, np.float64) / 257).clip(0, 255).astype(np.uint8))
            return np.asarray(ImageOps.fit(turned.convert("RGB"), (size, size), Image.Resampling.BILINEAR))
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as an image ({error}); repair or remove it") from error
