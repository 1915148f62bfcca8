"""Losses that several trainers share: classification, and distillation from the previous network.

Shapes: N images, C outputs of which the first P are of past classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.networks.network import Inside, Network

TEMPERATURE = 2.0

BatchLoss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""loss(model, images, labels): the mean loss of a batch."""


def cross_entropy(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The classification loss, from raw scores."""
    return F.cross_entropy(model(images), labels)


def teacher_of(network: Network) -> Network:
    """A frozen copy of the previous network, in evaluation mode."""
    return network.clone().eval().requires_grad_(False)


@torch.no_grad()
def teacher_scores(teacher: Network, images: Tensor) -> Tensor:
    """N x P raw scores of the previous network."""
    scores: Tensor = teacher(images)
    return scores


@torch.no_grad()
def teacher_inside(teacher: Network, images: Tensor, inside: Literal["features", "maps"]) -> Inside:
    """What the previous network shows of itself."""
    found: Inside = teacher(images, inside=inside)
    return found


def distillation_loss(scores_NP: Tensor, teacher_NP: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Cross-entropy between softened outputs over the past classes: the mean over images of -sum_c q_c log p_c.

    Both softmaxes run over the classes (axis 1), never over the batch.
    """
    targets = F.softmax(teacher_NP / temperature, dim=1)
    return -(targets * F.log_softmax(scores_NP / temperature, dim=1)).sum(1).mean()
