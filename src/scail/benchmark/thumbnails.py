"""Small pictures of exemplars: one sheet per state, a row per new class, best first.

Classes only ever keep a prefix of what they had, so the sheet of a class's own state serves all later states.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

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
    places = torch.cat([n * columns + torch.arange(len(rows)) for n, rows in enumerate(chosen)])
    small = torch.cat([_shrink(batch) for batch in centre_batches(images[torch.cat(chosen)], 64)])
    channels, side = small.shape[1], small.shape[2]
    sheet = torch.zeros(len(chosen) * columns, channels, side, side, dtype=torch.uint8)
    sheet[places] = small
    # (rows, columns, channels, y, x) -> (rows, y, columns, x, channels)
    pixels = sheet.reshape(len(chosen), columns, channels, side, side).permute(0, 3, 1, 4, 2)
    pixels = pixels.reshape(len(chosen) * side, columns * side, channels)
    return Sheet(*_encode(pixels), len(chosen), columns, side)


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
