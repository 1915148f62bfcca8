"""NCM: the class whose mean points the same way (SimpleCIL). Exact: nothing of the past is lost."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead
from scail.moments import Moments


def ncm(evidence: Evidence) -> LinearHead:
    """The cosine between an image's features and the mean of each class. A class without images has no mean."""
    moments = evidence.known_moments
    bias_C = torch.zeros(len(moments.count_C)).masked_fill(moments.count_C == 0, -torch.inf)
    return LinearHead(F.normalize(moments.mean_CD, dim=1).float(), bias_C, unit_features=True)


def ncm_left_out(moments: Moments, features_ND: Tensor, labels_N: Tensor) -> Tensor:
    """N x C scores of learned images, each by the classifier that never saw it."""
    features_ND = features_ND.double()
    unit_ND = F.normalize(features_ND, dim=1)
    scores_NC = unit_ND @ F.normalize(moments.mean_CD, dim=1).T
    scores_NC[:, moments.count_C == 0] = -torch.inf
    own_ND = F.normalize(moments.sum_CD[labels_N] - features_ND, dim=1)  # without the image itself
    own_N = (unit_ND * own_ND).sum(1).masked_fill(moments.count_C[labels_N] < 2, -torch.inf)
    return scores_NC.scatter(1, labels_N[:, None], own_N[:, None])
