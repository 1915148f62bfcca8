"""How far an image is from everything that was learned: what tells the unknown from the known.

Shapes: N images, C classes, D features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.slda import shrunk, shrunk_covariance


@dataclass(frozen=True)
class Strangeness:
    """A distance to the nearest class: f'Qf + l f + min over classes of (a_c f + b_c). The larger, the stranger."""

    quadratic_DD: Tensor
    linear_D: Tensor
    class_weight_CD: Tensor
    class_bias_C: Tensor
    """inf for a class that has no images."""
    unit_features: bool = False
    """Scale every feature vector to unit length first."""

    def measure(self, features_ND: Tensor) -> Tensor:
        """N numbers."""
        f = F.normalize(features_ND, dim=1) if self.unit_features else features_ND
        nearest_N = (f @ self.class_weight_CD.T + self.class_bias_C).amin(1)
        return (f @ self.quadratic_DD * f).sum(1) + f @ self.linear_D + nearest_N


def strangeness_of(evidence: Evidence) -> Strangeness | None:
    """How much farther an image is from the nearest class than from the middle of all images, each in its own measure.

    Distances are those of Mahalanobis: to a class under the covariance within classes, to the middle under that of all
    images (the relative distance of Ren et al. 2021). None without moments.
    """
    moments = evidence.moments
    if moments is None or moments.images < 2:
        return None
    within_DD = torch.linalg.inv(shrunk_covariance(moments)[0])
    total_DD, middle_D = (
        torch.linalg.inv(shrunk(moments.total_DD, moments.images - 1)[0]),
        moments.sum_CD.sum(0) / moments.images,
    )
    weight_CD = moments.mean_CD @ within_DD
    bias_C = (weight_CD * moments.mean_CD).sum(1) - middle_D @ total_DD @ middle_D
    return Strangeness(
        (within_DD - total_DD).float(), (2 * total_DD @ middle_D).float(), (-2 * weight_CD).float(),
        bias_C.masked_fill(moments.count_C == 0, torch.inf).float(),
    )  # fmt: skip
