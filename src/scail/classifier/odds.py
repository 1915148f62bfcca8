"""Odds of scores: how likely each class is, as far as learned images that were left out can tell.

Shapes: N images, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

POWER = 0.85
"""For heads that are made of moments. Odds then fall off a little slower than in a softmax, which comes closer to how
often learned images that are left out are classified right."""


@dataclass(frozen=True)
class Odds:
    """exp(-((highest score - score) / temperature) ** power), and the sum over all classes is 1."""

    temperature: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.temperature < math.inf and 0 < self.power < math.inf):
            raise ValueError(f"temperature {self.temperature}, power {self.power}: expected numbers above 0")

    def logs(self, scores_NC: Tensor) -> Tensor:
        """N x C logarithms of odds.

        >>> Odds(2.0).logs(torch.tensor([[2.0, 0.0]])).exp()
        tensor([[0.7311, 0.2689]])
        """
        behind_NC = (scores_NC.amax(1, keepdim=True) - scores_NC) / self.temperature
        return torch.log_softmax(-(behind_NC**self.power), dim=1)

    def of(self, scores_NC: Tensor) -> Tensor:
        """N x C odds."""
        return self.logs(scores_NC).exp()


def best_odds(scores_NC: Tensor, labels_N: Tensor, power: float = 1.0, sure: float = 1.0) -> Odds:
    """The odds under which the true classes are the likeliest; temperatures differ by a twentieth.

    `sure`: the part of an image that counts for its class; the rest counts for all others alike.

    There is one valley only: the loss is convex in a power of the temperature. So it is looked for in steps that
    become smaller.

    >>> best_odds(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1])).temperature > 100
    True
    """
    scores_NC = scores_NC.double()
    possible = scores_NC.gather(1, labels_N[:, None])[:, 0] > -math.inf
    scores_NC, labels_N = scores_NC[possible], labels_N[possible]
    if len(labels_N) == 0 or scores_NC.shape[1] < 2:
        return Odds(power=power)

    behind_NC = (scores_NC.amax(1, keepdim=True) - scores_NC) ** power
    can_be_NC = scores_NC > -math.inf
    others_N1 = (can_be_NC.sum(1, keepdim=True) - 1).clamp(min=1)

    def loss(step: int) -> float:
        logs_NC = torch.log_softmax(behind_NC * -math.exp(-power * step / 20), dim=1)
        own_N1 = logs_NC.gather(1, labels_N[:, None])
        if sure == 1.0:
            return float(-own_N1.mean())
        rest_N1 = (logs_NC.where(can_be_NC, 0.0).sum(1, keepdim=True) - own_N1) / others_N1
        return float(-(sure * own_N1 + (1 - sure) * rest_N1).mean())

    steps = range(-230, 139)
    best = min(steps[::23], key=loss)
    for near, stride in ((22, 4), (3, 1)):
        best = min(range(max(steps[0], best - near), min(steps[-1], best + near) + 1, stride), key=loss)
    return Odds(math.exp(best / 20), power)
