"""Small pictures of exemplars, and of generated images: one sheet per state, a row per new class, best first.

Classes only ever keep a prefix of what they had, so the sheet of a class's own state serves all later states.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from scail.datasets.dataset import Images
from scail.datasets.images.batches import centre_batches
from scail.results.run_directory import Sheet

_SIDE = 32
"""Pixels of a thumbnail at most."""
_MOST, _MOST_OF_A_CLASS = 2000, 10
"""Thumbnails of a trajectory at most: a thousand classes have two each, some two megabytes."""


def thumbnails_of_a_class(num_classes: int) -> int:
    """How many thumbnails each class has, so that all of them stay within bounds.

    >>> thumbnails_of_a_class(100), thumbnails_of_a_class(1000), thumbnails_of_a_class(5000)
    (10, 2, 0)
    """
    return min(_MOST_OF_A_CLASS, _MOST // num_classes)


def sheet_of(images: Images, exemplars: Sequence[Tensor], num_classes: int) -> Sheet | None:
    """The first exemplars of each of these classes (rows of `images`); None where there is nothing to show."""
    columns = min(thumbnails_of_a_class(num_classes), max(map(len, exemplars), default=0))
    if columns == 0:
        return None
    chosen = [rows[:columns] for rows in exemplars]
    return _sheet([_small(images[torch.cat(chosen)]).split([len(rows) for rows in chosen])], [columns])


def generated_sheet(
    images: Images, real: Sequence[Tensor], made_up: Callable[[Sequence[int]], tuple[Tensor, Tensor]],
    classes: range, num_classes: int,
) -> Sheet | None:  # fmt: skip
    """For each of these classes real images (rows of `images`), and beside them as many that are made up."""
    columns = thumbnails_of_a_class(num_classes)
    if columns == 0:
        return None
    made, _ = made_up([columns if label in classes else 0 for label in range(classes.stop)])
    shown = [rows[:columns] for rows in real]
    groups = [_small(images[torch.cat(shown)]).split([len(rows) for rows in shown]), _small(made).split(columns)]
    return replace(_sheet(groups, [columns, columns]), real=columns)


def _sheet(groups: Sequence[Sequence[Tensor]], columns: Sequence[int]) -> Sheet:
    """Small images of each class in its row, one group beside the other, each with so many columns."""
    (channels, side), rows, wide = groups[0][0].shape[1:3], len(groups[0]), sum(columns)
    sheet = torch.zeros(rows, wide, channels, side, side, dtype=torch.uint8)
    start = 0
    for group, width in zip(groups, columns, strict=True):
        for row, small in enumerate(group):
            sheet[row, start : start + len(small)] = small
        start += width
    # (rows, columns, channels, y, x) -> (rows, y, columns, x, channels)
    pixels = sheet.permute(0, 3, 1, 4, 2).reshape(rows * side, wide * side, channels)
    return Sheet(*_encode(pixels), rows, wide, side)


def _small(images: Images) -> Tensor:
    return torch.cat([_shrink(batch) for batch in centre_batches(images, 64)])


def _shrink(batch: Tensor) -> Tensor:
    """Squares of at most `_SIDE` pixels, averaged down; one channel or three."""
    side = min(_SIDE, *batch.shape[2:])
    if batch.shape[1] not in (1, 3):
        batch = batch[:, :1]
    return F.adaptive_avg_pool2d(batch.float(), side).round().to(torch.uint8)


def _encode(pixels: Tensor) -> tuple[bytes, str]:
    from PIL import Image

    file, grey = io.BytesIO(), pixels.shape[2] == 1
    image = Image.fromarray((pixels[:, :, 0] if grey else pixels).numpy())
    image.save(file, "PNG" if grey else "JPEG", **({"optimize": True} if grey else {"quality": 80}))
    return file.getvalue(), "png" if grey else "jpg"
