"""SLDA: class means under one covariance that all classes share (Deep SLDA), from the moments. Exact."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead
from scail.moments import Moments


def slda(evidence: Evidence) -> LinearHead:
    """Linear discriminant analysis with equal priors. A class without images cannot be predicted."""
    moments = evidence.known_moments
    weight_CD = moments.mean_CD @ precision(moments)[0]
    bias_C = -0.5 * (weight_CD * moments.mean_CD).sum(1)
    return LinearHead(weight_CD.float(), bias_C.masked_fill(moments.count_C == 0, -torch.inf).float())


@lru_cache(maxsize=2)  # a head, its leave-one-out and its odds are worked out one after the other
def precision(moments: Moments) -> tuple[Tensor, float]:
    """The inverse of the shrunk covariance within classes, and how far that is shrunk."""
    covariance_DD, share = shrunk_covariance(moments)
    return torch.linalg.inv(covariance_DD), share


def shrunk_covariance(moments: Moments) -> tuple[Tensor, float]:
    """The covariance within classes, shrunk, and how far (0 to 1)."""
    within_DD, freedom = moments.within_DD, moments.images - int((moments.count_C > 0).sum())
    if float(within_DD.trace()) <= 1e-12 * float(moments.gram_DD.trace()):
        freedom = 0  # images of a class are all alike: what is left is rounding
    return shrunk(within_DD, freedom)


def shrunk(scatter_DD: Tensor, freedom: int) -> tuple[Tensor, float]:
    """A covariance, shrunk towards a multiple of the identity, and how far (0 to 1).

    How far follows from the scatter itself. The oracle approximating shrinkage of Chen et al. (2010) is meant for
    normal numbers. Features have heavier tails: its square root does better when learned images are left out.
    """
    size, identity = len(scatter_DD), torch.eye(len(scatter_DD), dtype=torch.float64)
    covariance = scatter_DD / max(1, freedom)
    trace, square = float(covariance.trace()), float((covariance * covariance).sum())
    if freedom < 1 or trace <= 1e-12:
        return identity, 1.0  # one image a class: nothing is known of how they vary
    up = (1 - 2 / size) * square + trace**2
    down = (freedom + 1 - 2 / size) * (square - trace**2 / size)
    share = 1.0 if down <= 0 else min(1.0, up / down) ** 0.5
    return (1 - share) * covariance + share * trace / size * identity, share


def slda_left_out(moments: Moments, features_ND: Tensor, labels_N: Tensor) -> Tensor:
    """N x C scores of learned images, each by the classifier that never saw it.

    Without the image its class has another mean, and the covariance one direction less: by Sherman and Morrison nothing
    is solved anew. How far the covariance is shrunk stays as it is.
    """
    features_ND, mean_CD = features_ND.double(), moments.mean_CD
    precision_DD, share = precision(moments)
    freedom = max(1, moments.images - int((moments.count_C > 0).sum()))
    count_N = moments.count_C[labels_N].double()
    off_ND = features_ND - mean_CD[labels_N]
    weight_DC, image_DN, off_DN = ((precision_DD @ vectors.T) for vectors in (mean_CD, features_ND, off_ND))
    # The covariance without the image is `covariance - part * off off'`.
    part_N = (1 - share) * count_N / (count_N - 1).clamp(min=1) / freedom
    gain_N = part_N / (1 - part_N * (off_ND * off_DN.T).sum(1)).clamp(min=1e-12)

    reach_N1, gain_N1 = (off_DN.T * features_ND).sum(1)[:, None], gain_N[:, None]

    def scores(plain_NJ: Tensor, length_NJ: Tensor, along_NJ: Tensor) -> Tensor:
        """Of means whose inner products with the image, with themselves and with `off` are these."""
        found_NJ: Tensor = plain_NJ + gain_N1 * along_NJ * reach_N1 - 0.5 * (length_NJ + gain_N1 * along_NJ**2)
        return found_NJ

    others_NC = scores(features_ND @ weight_DC, (mean_CD * weight_DC.T).sum(1)[None], off_DN.T @ mean_CD.T)
    others_NC[:, moments.count_C == 0] = -torch.inf
    # The mean of its own class, without it.
    shift_N1 = 1 / (count_N - 1).clamp(min=1)[:, None]
    own_ND, own_DN = mean_CD[labels_N] - off_ND * shift_N1, weight_DC[:, labels_N] - off_DN * shift_N1.T
    products = [(solved_DN.T * own_ND).sum(1)[:, None] for solved_DN in (image_DN, own_DN, off_DN)]
    own_N1 = scores(products[0], products[1], products[2]).masked_fill((count_N < 2)[:, None], -torch.inf)
    return others_NC.scatter(1, labels_N[:, None], own_N1)


def slda_behind(moments: Moments) -> Tensor:
    """C scores by which an image's own class is behind when the image is left out, on average.

    A mean of n images is longer than the true one by what noise adds, d / n, and half of that is taken off the score.
    Without the image it is d / (n - 1), for this one class alone. d is the squared length of the noise of one image,
    under the precision without it.
    """
    precision_DD, share = precision(moments)
    freedom = max(1, moments.images - int((moments.count_C > 0).sum()))
    length = float((precision_DD * moments.within_DD).sum()) / freedom
    length /= max(1 - (1 - share) * length / freedom, 1e-12)
    count_C = moments.count_C.double()
    return (0.5 * length / (count_C * (count_C - 1))).masked_fill(moments.count_C < 2, 0.0)
