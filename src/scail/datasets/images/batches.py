"""Batches of images: uint8 in memory, augmented a whole batch at a time; or decoded from disk by threads."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from scail.datasets.dataset import Images, ImagesOnDisk
from scail.datasets.images.decode import Box, middle_square
from scail.runtime.ranks import ALONE, Ranks

_READ_AHEAD = 2  # batches that are being decoded while the network is at one
_MOST_FOR_STATISTICS = 5000  # of images on disk: mean and deviation of a channel need no more
_CENTRE = 224 / 256  # test images from disk: the middle 224 of 256 pixels, as is usual
_ATTEMPTS, _AREA, _RATIO = 10, (0.08, 1.0), (3 / 4, 4 / 3)  # random resized crop, as is usual


@dataclass(frozen=True)
class Augmentation:
    """What happens to a training image: a random crop, and every other one is mirrored.

    Images in memory are padded on all sides and cropped back to their size; of images on disk a random region of
    8 to 100 % of the area is scaled.
    """

    padding: int = 4
    mirror: bool = True


def training_batches(
    images: Images,
    labels: Tensor,
    batch_size: int,
    augmentation: Augmentation,
    generator: Callable[[int | str], Generator],
    start: int = 0,
    ranks: Ranks = ALONE,
    half_new: int = 0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch, from its batch `start` on: every image once, in a random order, augmented; uint8 images and labels.

    The order comes from generator("order"), batch b's augmentation from generator(b): an epoch that was interrupted
    goes on with the very batches that it would have had. Of each batch a rank has its own part, perhaps none of it,
    with the crops that one process would have made: together they see every image once. With `half_new`: the so many
    first images once each, and beside them as many of the others in every batch, drawn with replacement.
    """
    count, draw = len(images), generator("order")
    rows = mixed_rows(half_new, count, batch_size, draw) if half_new else epoch_rows(count, batch_size, draw)
    batches = rows[start:]
    draws = (generator(b) for b in range(start, start + len(batches)))
    if isinstance(images, Tensor):
        cropped = _crops_in_memory(images, batches, draws, augmentation, ranks)
    else:
        cropped = _regions_on_disk(images, batches, draws, augmentation, ranks)
    for batch, of_batch in zip(cropped, batches, strict=True):
        yield batch, labels[_part(of_batch, ranks)]


def _part(rows: Tensor, ranks: Ranks) -> Tensor:
    mine = ranks.part(len(rows))
    return rows[mine.start : mine.stop]


def _crops_in_memory(
    images: Tensor, batches: Sequence[Tensor], draws: Iterator[Generator], augmentation: Augmentation, ranks: Ranks
) -> Iterator[Tensor]:
    padding, (height, width) = augmentation.padding, images.shape[2:]
    for rows, draw in zip(batches, draws, strict=True):
        down, right = torch.randint(2 * padding + 1, (2, len(rows)), generator=draw)
        # Only the images of the batch are padded: to pad all of them anew in every epoch takes longer.
        padded = F.pad(images[_part(rows, ranks)], (padding,) * 4)
        # Every possible crop as a view, no copy: N x C x (2p+1) x (2p+1) x H x W
        crops = padded.unfold(2, height, 1).unfold(3, width, 1)
        batch = crops[torch.arange(len(padded)), :, _part(down, ranks), _part(right, ranks)]
        if augmentation.mirror:
            mirrored = (_part(torch.rand(len(rows), generator=draw), ranks) < 0.5).nonzero().flatten()
            batch.index_copy_(0, mirrored, batch.index_select(0, mirrored).flip(3))
        yield batch


def _regions_on_disk(
    images: ImagesOnDisk, batches: Sequence[Tensor], draws: Iterator[Generator], augmentation: Augmentation,
    ranks: Ranks,
) -> Iterator[Tensor]:  # fmt: skip
    def choices() -> Iterator[list[Callable[[int, int], Box]]]:
        for rows, draw in zip(batches, draws, strict=True):
            numbers = _part(torch.rand(len(rows), _ATTEMPTS, 4, generator=draw), ranks).tolist()
            mirrored.append(_part(torch.rand(len(rows), generator=draw), ranks) < 0.5)
            yield [lambda width, height, mine=mine: random_region(width, height, mine) for mine in numbers]  # type: ignore[misc]

    mirrored = deque[Tensor]()
    for batch in _decoded(images, [_part(rows, ranks) for rows in batches], choices()):
        flip = mirrored.popleft()
        yield torch.where(flip[:, None, None, None], batch.flip(3), batch) if augmentation.mirror else batch


def random_region(width: int, height: int, numbers: Sequence[Sequence[float]]) -> Box:
    """A region of 8 to 100 % of the area and a ratio of 3:4 to 4:3; `numbers`: four in [0, 1) for each attempt.

    Where no attempt fits into the image, the largest region of a permitted ratio in the middle.
    """
    low, high = (math.log(ratio) for ratio in _RATIO)
    for size, shape, x, y in numbers:
        area = width * height * (_AREA[0] + (_AREA[1] - _AREA[0]) * size)
        ratio = math.exp(low + (high - low) * shape)
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(x * (width - w + 1)), int(y * (height - h + 1))
            return left, top, left + w, top + h
    w, h = min(width, round(height * _RATIO[1])), min(height, round(width / _RATIO[0]))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def centre_batches(images: Images, batch_size: int) -> Iterator[Tensor]:
    """All images in order, as the network sees them when it is used; of images on disk the middle."""
    if isinstance(images, Tensor):
        yield from images.split(batch_size)
        return
    batches = torch.arange(len(images)).split(batch_size)
    yield from _decoded(images, batches, ([_centre] * len(rows) for rows in batches))


def _centre(width: int, height: int) -> Box:
    return middle_square(width, height, _CENTRE)


def _decoded(
    images: ImagesOnDisk, batches: Sequence[Tensor], choices: Iterator[list[Callable[[int, int], Box]]]
) -> Iterator[Tensor]:
    """Batches in order, decoded by threads a little ahead of their use."""

    def read(batch: Tensor, place: int, row: int, choose: Callable[[int, int], Box]) -> None:
        batch.numpy()[place] = images.read(row, choose).transpose(2, 0, 1)

    waiting = deque[tuple[Tensor, list[Future[None]]]]()
    with ThreadPoolExecutor(max(1, images.workers)) as threads:
        try:
            for rows, chosen in zip(batches, choices, strict=True):
                batch = torch.empty(len(rows), *images.shape[1:], dtype=torch.uint8)
                todo = enumerate(zip(rows.tolist(), chosen, strict=True))
                waiting.append((batch, [threads.submit(read, batch, n, row, choose) for n, (row, choose) in todo]))
                if len(waiting) > _READ_AHEAD:
                    yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())
        finally:  # an error, or nobody wants the rest
            for _, futures in waiting:
                for future in futures:
                    future.cancel()


def _finished(batch: Tensor, futures: list[Future[None]]) -> Tensor:
    for future in futures:
        future.result()
    return batch


def epoch_rows(count: int, batch_size: int, generator: Generator) -> list[Tensor]:
    """A random order of 0..count-1 in batches; a lone last row joins the batch before (batch norm needs two)."""
    return list(torch.randperm(count, generator=generator).split(batch_sizes(count, batch_size)))


def mixed_rows(new: int, count: int, batch_size: int, generator: Generator) -> list[Tensor]:
    """A random order of 0..new-1 in half batches; each is filled with as many of new..count-1."""
    halves = torch.randperm(new, generator=generator).split(batch_sizes(new, max(1, batch_size // 2)))
    return [torch.cat([half, torch.randint(new, count, (len(half),), generator=generator)]) for half in halves]


def batch_sizes(count: int, batch_size: int) -> list[int]:
    """How many images each batch of an epoch has.

    >>> batch_sizes(9, 4), batch_sizes(10, 4)
    ([4, 5], [4, 4, 2])
    """
    sizes = [min(batch_size, count - begin) for begin in range(0, count, batch_size)]
    if len(sizes) > 1 and sizes[-1] == 1:
        sizes[-2:] = [sizes[-2] + 1]
    return sizes


def channel_statistics(images: Images) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over all pixels (on disk: of 5000 images), in units of 0..255."""
    if not isinstance(images, Tensor):
        every = max(1, len(images) // _MOST_FOR_STATISTICS)
        images = images[torch.arange(0, len(images), every)[:_MOST_FOR_STATISTICS]]
    histogram = torch.zeros(images.shape[1], 256, dtype=torch.int64)
    for batch in [images] if isinstance(images, Tensor) else centre_batches(images, 256):
        histogram += torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in batch.unbind(1)])
    levels = torch.arange(256, dtype=torch.float64)
    share = histogram.double() / histogram.sum(1, keepdim=True)
    mean = share @ levels
    deviation = (share @ levels**2 - mean**2).clamp(min=0).sqrt()
    return mean.float(), deviation.clamp(min=1).float()  # a channel without contrast is left as it is
