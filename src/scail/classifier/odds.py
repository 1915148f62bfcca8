"""Odds of scores: how likely each class is, as far as learned images that were left out can tell.

Shapes: N images, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

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
    """The odds under which the true classes are the likeliest; temperatures differ by a hundredth.

    `sure`: the part of an image that counts for its class; the rest counts for all others alike.

    >>> best_odds(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1])).temperature > 100
    True
    """
    scores_NC, labels_N = _possible(scores_NC, labels_N)
    if len(labels_N) == 0 or scores_NC.shape[1] < 2:
        return Odds(power=power)
    behind_NC = _behind(scores_NC, power)
    can_be_NC = scores_NC > -math.inf
    others_N1 = (can_be_NC.sum(1, keepdim=True) - 1).clamp(min=1)

    def loss(temperature: float) -> float:
        logs_NC = torch.log_softmax(behind_NC * -(temperature**-power), dim=1)
        own_N1 = logs_NC.gather(1, labels_N[:, None])
        if sure == 1.0:
            return float(-own_N1.mean())
        rest_N1 = (logs_NC.where(can_be_NC, 0.0).sum(1, keepdim=True) - own_N1) / others_N1
        return float(-(sure * own_N1 + (1 - sure) * rest_N1).mean())

    return Odds(_best_temperature(loss), power)


def odds_of_best(scores_NC: Tensor, labels_N: Tensor, power: float = POWER) -> Odds:
    """The odds under which it is the likeliest that the best class is right as often as it is.

    >>> scores, labels = torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])
    >>> odds_of_best(scores, labels).of(scores)[0, 0]  # three of four are right
    tensor(0.7499)
    """
    scores_NC, labels_N = _possible(scores_NC, labels_N)
    if len(labels_N) == 0 or scores_NC.shape[1] < 2:
        return Odds(power=power)
    behind_NC, right_N = _behind(scores_NC, power), scores_NC.argmax(1) == labels_N

    def loss(temperature: float) -> float:
        chance_N = 1 / (behind_NC * -(temperature**-power)).exp().sum(1)
        return float(-torch.where(right_N, chance_N, 1 - chance_N).log().mean())

    return Odds(_best_temperature(loss), power)


def _possible(scores_NC: Tensor, labels_N: Tensor) -> tuple[Tensor, Tensor]:
    """Without images whose class cannot be predicted."""
    possible_N = scores_NC.gather(1, labels_N[:, None])[:, 0] > -math.inf
    return scores_NC[possible_N].double(), labels_N[possible_N]


def _behind(scores_NC: Tensor, power: float) -> Tensor:
    return (scores_NC.amax(1, keepdim=True) - scores_NC) ** power


def _best_temperature(loss: Callable[[float], float]) -> float:
    """There is one valley only. So it is looked for in steps that become smaller, down to a hundredth."""
    at = cache(lambda step: loss(math.exp(step / 100)))
    first, last = -1150, 690
    best = min(range(first, last + 1, 128), key=at)
    for stride in (32, 8, 2, 1):
        best = min(range(max(first, best - 3 * stride), min(last, best + 3 * stride) + 1, stride), key=at)
    return math.exp(best / 100)
