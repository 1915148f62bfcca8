"""PODNet's losses: what its classifier learns by, and what holds the maps inside the network.

Shapes: N images, C classes; maps of A channels, H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def nca_loss(scores_NC: Tensor, labels_N: Tensor) -> Tensor:
    """max(0, log sum over the other classes of exp(score) - own score), the mean over images.

    With a single class there is nothing to learn: 0.
    """
    own_N = scores_NC.gather(1, labels_N[:, None])[:, 0]
    is_own_NC = F.one_hot(labels_N, scores_NC.shape[1]).bool()
    others_N = scores_NC.masked_fill(is_own_NC, torch.finfo(scores_NC.dtype).min).logsumexp(1)
    return F.relu(others_N - own_N).mean()


def pooled_loss(maps: Sequence[Tensor], teacher_maps: Sequence[Tensor]) -> Tensor:
    """The distance between the pooled maps of an image and the teacher's: the mean over stages and images."""
    pairs = zip(maps, teacher_maps, strict=True)
    return torch.stack([(pooled(of) - pooled(before)).norm(dim=1).mean() for of, before in pairs]).mean()


def pooled(maps_NAHW: Tensor) -> Tensor:
    """Squares summed over the width, and over the height, one after the other: N x (H + W) * A, of unit length."""
    maps_NHWA = maps_NAHW.permute(0, 2, 3, 1)  # as they lie in memory: gradients then do, too
    squares = maps_NHWA * maps_NHWA
    return F.normalize(torch.cat([squares.sum(2).flatten(1), squares.sum(1).flatten(1)], 1), dim=1)
