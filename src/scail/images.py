"""Batches of images: uint8 in memory, augmented a whole batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Augmentation:
    """What happens to a training image: pad on all sides, crop back at random, mirror every other one."""

    padding: int = 4
    mirror: bool = True


def training_batches(
    images: Tensor,
    labels: Tensor,
    batch_size: int,
    augmentation: Augmentation,
    generator: Callable[[int | str], Generator],
    start: int = 0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch, from its batch `start` on: every image once, in a random order, augmented; uint8 images and labels.

    The order comes from generator("order"), batch b's augmentation from generator(b): an epoch that was interrupted
    goes on with the very batches that it would have had.
    """
    padding, (height, width) = augmentation.padding, images.shape[2:]
    padded = F.pad(images, (padding,) * 4)
    # Every possible crop as a view, no copy: N x C x (2p+1) x (2p+1) x H x W
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)
    for b, rows in enumerate(epoch_rows(len(images), batch_size, generator("order"))):
        if b < start:
            continue
        draw = generator(b)
        down, right = torch.randint(2 * padding + 1, (2, len(rows)), generator=draw)
        batch = crops[rows, :, down, right]
        if augmentation.mirror:
            mirrored = torch.rand(len(rows), generator=draw) < 0.5
            batch = torch.where(mirrored[:, None, None, None], batch.flip(3), batch)
        yield batch, labels[rows]


def epoch_rows(count: int, batch_size: int, generator: Generator) -> list[Tensor]:
    """A random order of 0..count-1 in batches; a lone last row joins the batch before (batch norm needs two)."""
    batches = list(torch.randperm(count, generator=generator).split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over all pixels, in units of 0..255."""
    histogram = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in images.unbind(1)])
    levels = torch.arange(256, dtype=torch.float64)
    share = histogram.double() / histogram.sum(1, keepdim=True)
    mean = share @ levels
    deviation = (share @ levels**2 - mean**2).clamp(min=0).sqrt()
    return mean.float(), deviation.clamp(min=1).float()  # a channel without contrast is left as it is
