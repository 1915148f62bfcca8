"""Images and labels as people have them: arrays, tensors, paths, PIL images, torch and Hugging Face data sets.

All become uint8 tensors, N x channels x height x width, and class names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.classifier.answering import read_picture
from scail.classifier.picture_scaling import scaled_picture
from scail.config import FILES_SIZE
from scail.datasets.images.colour import in_colour
from scail.datasets.images.on_disk import in_threads

MOST_BYTES = 8 * 2**30
"""Images of one call are decoded into memory: so much of it at most."""
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Shape:
    """What every image of a classifier looks like."""

    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        if self.channels not in (1, 3) or not (8 <= self.height <= 1024 and 8 <= self.width <= 1024):
            raise ValueError(
                f"images of {self.channels} channel(s), {self.height} x {self.width} pixels: expected 1 or 3 channels "
                "and 8 to 1024 pixels; give image_size to have them scaled"
            )


@dataclass(frozen=True)
class Size:
    """How large the first images are to be, in pixels a side."""

    asked: int | None = None
    of_files: int = FILES_SIZE
    most: int | None = None
    """Larger arrays are scaled down to it; None: never."""


class NumberLabel(str):
    """The text of a label that was given as a whole number, and comes back as one."""

    __slots__ = ()


def labels_of(names: Iterable[str]) -> list[str | int]:
    """Class names as their labels were given."""
    return [int(name) if isinstance(name, NumberLabel) else name for name in names]


def class_names_of(labels: Any) -> list[str]:
    """Labels as class names: text, or whole numbers as their text. Anything else is no label."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise ValueError(f"labels {labels!r}: expected one label for each image, as a list of class names")
    return [_class_name(label, i) for i, label in enumerate(labels)]


def _class_name(label: Any, i: int) -> str:
    if isinstance(label, Tensor | np.generic):
        label = label.item()
    if isinstance(label, int) and not isinstance(label, bool):
        return NumberLabel(label)
    if not isinstance(label, str) or not label.strip():
        raise ValueError(
            f"label of image {i} is {label!r}: expected the name of its class. Images without labels cannot be learned"
        )
    if len(label) > 200 or not label.isprintable():
        raise ValueError(f"label of image {i} is {label[:50]!r}: expected a name of at most 200 printable characters")
    return label


def labelled(images: Any, labels: Any) -> tuple[Any, list[str]]:
    """Images and class names; both from `images` where that is a data set of torch or Hugging Face."""
    if labels is None and hasattr(images, "features") and hasattr(images, "column_names"):
        return _of_hugging_face(images)
    if labels is None and _is_torch_dataset(images):
        pairs = _items(images)
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
            raise ValueError("a torch data set: expected (image, label) pairs; images without labels cannot be learned")
        names = getattr(images, "classes", None)
        found = [names[int(label)] if names is not None and not isinstance(label, str) else label for _, label in pairs]
        return [image for image, _ in pairs], class_names_of(found)
    if labels is None:
        raise ValueError(
            "images without labels cannot be learned: give learn(images, labels), one label for each image"
        )
    names = class_names_of(labels)
    if not hasattr(images, "__len__") or isinstance(images, str):
        raise ValueError(f"images of type {type(images).__name__}: expected an array, a tensor or a list")
    if len(images) != len(names):
        raise ValueError(f"{len(images)} images and {len(names)} labels: expected one label for each image")
    return images, names


def images_of(images: Any) -> Any:
    """The images alone, of a data set of torch or Hugging Face too; one image becomes a list of one."""
    if isinstance(images, str | Path) or hasattr(images, "convert"):
        return [images]
    if hasattr(images, "features") and hasattr(images, "column_names"):
        from datasets import Image

        columns = [name for name, feature in images.features.items() if isinstance(feature, Image)]
        if len(columns) != 1:
            raise ValueError(f"data set with the columns {', '.join(images.column_names)}: expected one of images")
        return _pictures_in(images, columns[0])
    if _is_torch_dataset(images):
        return [item[0] if isinstance(item, tuple | list) else item for item in _items(images)]
    return images if hasattr(images, "__len__") else list(images)


def _is_torch_dataset(images: Any) -> bool:
    return isinstance(images, torch.utils.data.Dataset) or (
        hasattr(images, "__getitem__") and hasattr(images, "__len__") and hasattr(images, "classes")
    )


def _items(dataset: Any) -> list[Any]:
    """All items of a torch data set, of those without a length too."""
    return [dataset[i] for i in range(len(dataset))] if hasattr(dataset, "__len__") else list(dataset)


def _of_hugging_face(table: Any) -> tuple[Any, list[str]]:
    from scail.datasets.sources.hub import find_columns

    image, label = find_columns("data set", table.features, (None, None))
    values, names = table[label][:], getattr(table.features[label], "names", None)
    if names is not None:
        values = [None if v is None or v < 0 else names[v] for v in values]
    return _pictures_in(table, image), class_names_of(values)


def _pictures_in(table: Any, column: str) -> list[Any]:
    """Files as they are, to be decoded as all others are; unless somebody has said how to decode this table."""
    from datasets import Image

    if table.format["type"] is not None:
        found: list[Any] = table[column][:]
        return found
    files = table.cast_column(column, Image(decode=False))[column][:]
    return [one and (one["path"] if one["bytes"] is None else one["bytes"]) for one in files]


def as_pixels(
    images: Any, shape: Shape | None, size: Size | None = None, done: Callable[[int, int], None] = lambda i, of: None
) -> Tensor:
    """Images as the classifier sees them; `shape` None: the shape is found from these, the first ones.

    What has to be decoded or scaled is, on all cores; `done` is told how many are, and of how many.
    """
    images = images_of(images)
    if isinstance(images, Tensor | np.ndarray) and images.dtype != object:
        images = _array_nhwc(images)
    images = images if isinstance(images, np.ndarray) else list(images)
    if len(images) == 0:
        raise ValueError("no images: expected at least one")
    shape = shape or shape_of(images, size or Size())
    check_memory(len(images), shape)
    if isinstance(images, np.ndarray) and images.shape[1:] == (shape.height, shape.width, shape.channels):
        return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    decoded = torch.empty(len(images), shape.channels, shape.height, shape.width, dtype=torch.uint8)
    pixels = decoded.numpy()

    def decode(i: int) -> None:
        pixels[i] = one_image(images[i], shape, i).transpose(2, 0, 1)

    for i, _ in enumerate(in_threads(decode, range(len(images)), os.cpu_count() or 1), 1):
        done(i, len(images))
    return decoded


def shape_of(images: Any, size: Size) -> Shape:
    """The shape that a classifier takes from its first images: that of arrays, unless it is too large."""
    first = images[0]
    image_size = size.asked
    if isinstance(first, Tensor | np.ndarray):
        height, width, channels = images.shape[1:] if isinstance(images, np.ndarray) else _array_hwc(first, 0).shape
        if image_size is None and size.most is not None and min(height, width) > size.most:
            image_size = size.most
        return Shape(channels, image_size or height, image_size or width)
    return Shape(3, image_size or size.of_files, image_size or size.of_files)


def check_memory(count: int, shape: Shape) -> None:
    """An error if so many images do not fit into memory."""
    needed = count * shape.channels * shape.height * shape.width
    if needed > MOST_BYTES:
        raise ValueError(
            f"{count} images of {shape.height} x {shape.width} pixels need {needed / 2**30:.0f} GiB, expected at most "
            f"{MOST_BYTES / 2**30:.0f} GiB in one call: give fewer images, or a smaller image size"
        )


def one_image(image: Any, shape: Shape, i: int) -> Pixels:
    """height x width x channels: one image of any kind; the middle of it is scaled."""
    if isinstance(image, str | Path | bytes):
        return scaled_picture(read_picture(image), shape)
    if isinstance(image, Tensor | np.ndarray):
        array = _array_hwc(image, i)
        if array.shape == (shape.height, shape.width, shape.channels):
            return array
        return scaled_picture(array if array.shape[2] == 3 else array.repeat(3, axis=2), shape)
    if hasattr(image, "convert") and hasattr(image, "resize"):
        from PIL.ImageOps import exif_transpose

        return scaled_picture(np.asarray(in_colour(exif_transpose(image))), shape)
    raise ValueError(f"image {i} is a {type(image).__name__}: expected an array, a tensor, a path or a PIL image")


def _array_nhwc(images: Tensor | NDArray[Any]) -> Pixels:
    """A whole array of images; channels stand last in arrays and first in tensors, unless only the other can be."""
    is_tensor = isinstance(images, Tensor)
    array = images.detach().cpu().numpy() if isinstance(images, Tensor) else images
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and (array.shape[1] in (1, 3) if is_tensor else array.shape[3] not in (1, 3)):
        array = array.transpose(0, 2, 3, 1)
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise ValueError(
            f"images of shape {tuple(images.shape)}: expected N x height x width (x channels), or N x channels x "
            "height x width, with 1 or 3 channels"
        )
    return _as_uint8(array)


def _array_hwc(image: Tensor | NDArray[Any], i: int) -> Pixels:
    if image.ndim not in (2, 3):
        raise ValueError(f"image {i} has the shape {tuple(image.shape)}: expected height x width (x channels)")
    found: Pixels = _array_nhwc(image[None])[0]
    return found


def _as_uint8(array: NDArray[Any]) -> Pixels:
    """Pixels of 0 to 255; other numbers are taken for 0 to 1, and nothing else."""
    if array.dtype == np.uint8:
        return array
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if np.issubdtype(array.dtype, np.floating) and low >= 0 and high <= 1:
        return (array * 255).round().astype(np.uint8)
    whole = np.issubdtype(array.dtype, np.integer)
    if whole and low >= 0 and high <= 255:
        return array.astype(np.uint8)
    bad = "" if math.isfinite(low + high) else ", not all finite"
    raise ValueError(
        f"images of {array.dtype} from {low:g} to {high:g}{bad}: expected whole numbers from 0 to 255, or from 0 to 1 "
        "with fractions; undo any normalisation"
    )


def grouped(names: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each class, in the order in which classes first appear."""
    rows = dict[str, list[int]]()
    for i, name in enumerate(names):
        rows.setdefault(name, []).append(i)
    return rows
