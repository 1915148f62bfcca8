"""FT^NEM: the nearest exemplar mean."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def ft_nem(evidence: Evidence) -> LinearHead:
    """Means of unit-length exemplar features, scaled to unit length again; the nearest mean has the highest score.

    Between unit vectors |f - m|^2 = 2 - 2 f.m, so that the largest product is the nearest mean. A class without
    exemplars cannot be predicted.
    """
    num_classes, feature_size = evidence.weight_CD.shape
    unit_ED = F.normalize(evidence.exemplar_features_ED, dim=1)
    sums_CD = torch.zeros(num_classes, feature_size).index_add_(0, evidence.exemplar_labels_E, unit_ED)
    counts_C = torch.bincount(evidence.exemplar_labels_E, minlength=num_classes)
    bias_C = torch.zeros(num_classes).masked_fill(counts_C == 0, -torch.inf)
    return LinearHead(F.normalize(sums_CD, dim=1), bias_C, unit_features=True)
