"""Imprinting: rows of new classes begin at the features of their images, by the network before (Qi et al. 2018).

Shapes: N images, P past classes, K rows of each class, D features.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from scail.networks.cosine_linear import CosineLinear
from scail.networks.network import Network, extract_features
from scail.runtime.seeds import generator_for
from scail.training.task import Task

_MOST_STEPS = 100


def imprinted(network: Network, layer: CosineLinear, task: Task) -> CosineLinear:
    """This layer of `network` with rows of the task's new classes, as long as those of past classes are on average."""
    lengths = layer.weight.detach().view(-1, layer.feature_size).norm(dim=1)
    length = lengths.mean().cpu()
    rows = []
    for label in range(task.past_classes, task.num_classes):
        images = task.images[(task.labels == label).nonzero().flatten()]
        unit_ND = F.normalize(extract_features(network, images, task.ranks), dim=1)
        centres_KD = centres(unit_ND, layer.proxies, generator_for(task.seed, "proxies", label))
        rows.append((F.normalize(centres_KD, dim=1) * length).flatten())
    return layer.extended(torch.stack(rows)) if rows else layer


def centres(features_ND: Tensor, count: int, generator: Generator) -> Tensor:
    """K centres of k-means, which begins at images that are drawn; one centre is the mean.

    Where there are fewer images than centres, images stand for several.
    """
    drawn = torch.randperm(len(features_ND), generator=generator)
    if count == 1 or len(features_ND) <= count:
        return features_ND.mean(0, keepdim=True) if count == 1 else features_ND[drawn[torch.arange(count) % len(drawn)]]
    centres_KD, before = features_ND[drawn[:count]], torch.full((len(features_ND),), -1)
    for _ in range(_MOST_STEPS):
        nearest_N = torch.cdist(features_ND, centres_KD, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)
        if torch.equal(nearest_N, before):
            break
        count_K = torch.bincount(nearest_N, minlength=count)
        sums_KD = torch.zeros_like(centres_KD).index_add_(0, nearest_N, features_ND)
        means_KD = sums_KD / count_K.clamp(min=1)[:, None]
        centres_KD, before = means_KD.where(count_K[:, None] > 0, centres_KD), nearest_N
    return centres_KD
