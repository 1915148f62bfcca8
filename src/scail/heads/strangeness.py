"""How strange an image is to a classifier: what tells the unknown from the known.

Two cosines are looked at. Between the features of the image and the mean of the nearest class: it tells what is of
another world (drawings from photographs). And the same around the middle of all classes, where directions in which
images of one class vary count less: it tells a new kind from similar ones. Both are needed.

Shapes: N images, C classes, D features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.ft_slda import available
from scail.heads.ncm import ncm_left_out
from scail.heads.slda import precision
from scail.moments import Moments

UNKNOWN = 1.0
"""An image that is stranger than this is unknown."""


@dataclass(frozen=True)
class Familiar:
    """How similar learned images are to their classes, when they are left out: the scale of strangeness."""

    plain: float
    """What a cosine of 1 takes off."""
    white: float
    offset: float
    """The strangeness of an image that is not similar to anything."""
    apart: float = 0.5
    """1 - cosine of features: images of two kinds are farther apart than this, on average, those of one kind less."""

    @classmethod
    def of(cls, similar: tuple[Tensor, Tensor], share: float, apart: float = 0.5) -> Familiar:
        """The scale on which half of these images are below 0, and this share of them below `UNKNOWN`."""
        weights = [1 / max(float(values.std(correction=0)), 1e-6) for values in similar]
        strange_N = -(weights[0] * similar[0] + weights[1] * similar[1])
        middle, most = (float(strange_N.quantile(q)) for q in (0.5, share))
        spread = max(most - middle, 1e-6)
        return cls(weights[0] / spread, weights[1] / spread, -middle / spread, apart)


@dataclass(frozen=True)
class Strangeness:
    """How strange images are: 0 for a usual image of a class that was learned, above 1 for what is unknown."""

    mean_CD: Tensor
    """Means of the classes, of unit length."""
    middle_D: Tensor
    white_CD: Tensor
    """Means around the middle, times the precision, divided by their length in it."""
    precision_DD: Tensor
    familiar: Familiar

    def measure(self, features_ND: Tensor) -> Tensor:
        """N numbers."""
        plain_N = (F.normalize(features_ND, dim=1) @ self.mean_CD.T).amax(1)
        off_ND = features_ND - self.middle_D
        length_N = (off_ND @ self.precision_DD * off_ND).sum(1).clamp(min=1e-12).sqrt()
        white_N = (off_ND @ self.white_CD.T).amax(1) / length_N
        return self.familiar.offset - self.familiar.plain * plain_N - self.familiar.white * white_N


def moments_at_hand(evidence: Evidence) -> Moments | None:
    """The moments; where the network moves, those of the features at hand: exemplars and new images."""
    if evidence.moments is not None:
        return evidence.moments
    features_ND, labels_N = available(evidence)
    return Moments.of(features_ND, labels_N, len(evidence.bias_C)) if len(labels_N) else None


def strangeness_of(moments: Moments, familiar: Familiar) -> Strangeness:
    """The strangeness of images to what these are the moments of."""
    mean_CD = moments.mean_CD[moments.count_C > 0]
    precision_DD, middle_D = precision(moments)[0], mean_CD.mean(0)
    off_CD = mean_CD - middle_D
    white_CD = off_CD @ precision_DD
    white_CD = white_CD / (white_CD * off_CD).sum(1, keepdim=True).clamp(min=1e-12).sqrt()
    return Strangeness(
        F.normalize(mean_CD, dim=1).float(), middle_D.float(), white_CD.float(), precision_DD.float(), familiar
    )


def distance_between_kinds(features_ND: Tensor, labels_N: Tensor) -> float:
    """1 - cosine between two images, on average: halfway between those of one class and those of two.

    >>> distance_between_kinds(torch.eye(2).repeat(2, 1), torch.tensor([0, 1, 0, 1]))
    0.5
    """
    unit_ND = F.normalize(features_ND.double(), dim=1)
    classes, of_N = torch.unique(labels_N, return_inverse=True)
    count_C = torch.bincount(of_N).double()
    sum_CD = torch.zeros(len(classes), unit_ND.shape[1], dtype=torch.float64).index_add_(0, of_N, unit_ND)
    product_CC = sum_CD @ sum_CD.T
    several = count_C > 1
    alike_C = (product_CC.diagonal() - count_C)[several] / (count_C * (count_C - 1))[several]
    unlike_CC = product_CC / torch.outer(count_C, count_C)
    unlike = unlike_CC[~torch.eye(len(classes), dtype=torch.bool)]
    found = [1 - float(values.mean()) for values in (alike_C, unlike) if len(values)]
    return sum(found) / len(found) if found else 0.5


def similar_left_out(moments: Moments, features_ND: Tensor, labels_N: Tensor) -> tuple[Tensor, Tensor]:
    """The two cosines of learned images, each by a classifier that never saw it; their classes have two at least.

    The middle of all classes stays as it is. The rest is as in `slda_left_out`. A single class is its own middle: then
    the second cosine tells nothing, and is 0.
    """
    plain_N = ncm_left_out(moments, features_ND, labels_N).amax(1)
    known = moments.count_C > 0
    if int(known.sum()) == 1:
        return plain_N, torch.zeros_like(plain_N)
    middle_D = moments.mean_CD[known].mean(0)
    features_ND, mean_CD = features_ND.double() - middle_D, moments.mean_CD - middle_D
    precision_DD, share = precision(moments)
    count_N = moments.count_C[labels_N].double()
    off_ND = features_ND - mean_CD[labels_N]
    solved_ND = off_ND @ precision_DD
    part_N = (1 - share) * count_N / (count_N - 1).clamp(min=1) / max(1, moments.images - int(known.sum()))
    gain_N1 = (part_N / (1 - part_N * (solved_ND * off_ND).sum(1)).clamp(min=1e-12))[:, None]
    # Inner products under the precision without the image: a'P'b = a'Pb + gain (a'P off) (b'P off).
    image_N1, image_ND = (solved_ND * features_ND).sum(1)[:, None], features_ND @ precision_DD
    length_N1 = (image_ND * features_ND).sum(1)[:, None] + gain_N1 * image_N1**2
    mean_NC, white_CD = solved_ND @ mean_CD.T, mean_CD @ precision_DD
    product_NC = image_ND @ mean_CD.T + gain_N1 * image_N1 * mean_NC
    size_NC = (white_CD * mean_CD).sum(1) + gain_N1 * mean_NC**2
    own_ND = mean_CD[labels_N] - off_ND / (count_N - 1).clamp(min=1)[:, None]
    own_N1 = (solved_ND * own_ND).sum(1)[:, None]
    own_product = (image_ND * own_ND).sum(1)[:, None] + gain_N1 * image_N1 * own_N1
    own_size = (own_ND @ precision_DD * own_ND).sum(1)[:, None] + gain_N1 * own_N1**2
    product_NC = product_NC.scatter(1, labels_N[:, None], own_product)
    size_NC = size_NC.scatter(1, labels_N[:, None], own_size)
    cosine_NC = product_NC / (size_NC * length_N1).clamp(min=1e-24).sqrt()
    cosine_NC[:, ~known] = -torch.inf
    return plain_N, cosine_NC.amax(1)
