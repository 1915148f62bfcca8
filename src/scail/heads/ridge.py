"""Ridge: least squares from features to classes, from the moments (analytic learning). Exact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead
from scail.moments import Moments

STRENGTHS = tuple(10.0**power for power in range(-7, 3))
"""Of which one is chosen: relative to the mean variance of the features."""


def ridge(evidence: Evidence) -> LinearHead:
    """Targets are 1 for the class of an image and 0 for the others; the offset is not penalised.

    The strength is the one with the least generalised cross-validation error, which follows from the moments.
    """
    moments = evidence.known_moments
    solution = solve(moments)
    bias_C = solution.bias_C.masked_fill(moments.count_C == 0, -torch.inf)
    return LinearHead(solution.weight_CD.float(), bias_C.float())


@dataclass(frozen=True)
class Solution:
    """Least squares with the strength that was chosen."""

    weight_CD: Tensor
    bias_C: Tensor
    axes_DD: Tensor
    """Axes along which the features vary independently, as columns."""
    inverse_D: Tensor
    """1 / (scatter along the axis + penalty)."""


@lru_cache(maxsize=2)  # a head, its leave-one-out and its odds are worked out one after the other
def solve(moments: Moments) -> Solution:
    """Least squares for every strength at once, on the axes of the scatter, and the best of them."""
    images, mean_D = max(1, moments.images), moments.sum_CD.sum(0) / max(1, moments.images)
    scatter_D, axes_DD = torch.linalg.eigh(moments.total_DD)
    scatter_D = scatter_D.clamp(min=0)
    cross_DC = (moments.sum_CD - moments.count_C[:, None] * mean_D).T
    along_DC = axes_DD.T @ cross_DC
    share_C = moments.count_C.double() / images
    strength = _chosen(scatter_D, (along_DC**2).sum(1), float((images * share_C * (1 - share_C)).sum()), images)
    inverse_D = 1 / (scatter_D + strength)
    weight_CD = (axes_DD @ (inverse_D[:, None] * along_DC)).T
    return Solution(weight_CD, share_C - weight_CD @ mean_D, axes_DD, inverse_D)


def _chosen(scatter_D: Tensor, energy_D: Tensor, targets: float, images: int) -> float:
    """The penalty with the least generalised cross-validation error: residual / (1 - freedom / images) squared."""
    unit = max(float(scatter_D.mean()), 1e-12)

    def error(penalty: float) -> float:
        over_D = 1 / (scatter_D + penalty)
        residual = targets - float((energy_D * over_D * (2 - scatter_D * over_D)).sum())
        freedom = 1 + float((scatter_D * over_D).sum())
        return max(residual, 0.0) / max(1 - freedom / images, 1e-6) ** 2

    return min((strength * unit for strength in reversed(STRENGTHS)), key=error)


def ridge_left_out(moments: Moments, features_ND: Tensor, labels_N: Tensor) -> Tensor:
    """N x C scores of learned images, each by the classifier that never saw it: exact for this strength."""
    solution, images = solve(moments), max(1, moments.images)
    features_ND = features_ND.double()
    target_NC = torch.zeros(len(labels_N), len(moments.count_C), dtype=torch.float64)
    target_NC.scatter_(1, labels_N[:, None], 1.0)
    scores_NC = features_ND @ solution.weight_CD.T + solution.bias_C
    along_ND = (features_ND - moments.sum_CD.sum(0) / images) @ solution.axes_DD
    own_N1 = (1 / images + (along_ND**2 * solution.inverse_D).sum(1)).clamp(max=1 - 1e-9)[:, None]
    scores_NC = (scores_NC - own_N1 * target_NC) / (1 - own_N1)
    scores_NC[:, moments.count_C == 0] = -torch.inf
    lonely_N = (moments.count_C[labels_N] < 2).nonzero().flatten()
    scores_NC[lonely_N, labels_N[lonely_N]] = -torch.inf  # without it there is no image of its class
    return scores_NC
