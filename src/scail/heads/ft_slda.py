"""FT^SLDA: nearest class mean under one covariance that all classes share, in FT's features."""

from __future__ import annotations

import torch
from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def ft_slda(evidence: Evidence, shrinkage: float = 0.1) -> LinearHead:
    """Means of exemplars (past classes) and of all training images (new ones); pooled within-class covariance.

    The covariance is shrunk towards a multiple of the identity with the same trace. Scores are those of linear
    discriminant analysis with equal priors. A class without images cannot be predicted.
    """
    features_ND, labels_N = available(evidence)
    num_classes = len(evidence.bias_C)
    counts_C = torch.bincount(labels_N, minlength=num_classes)
    means_CD = torch.zeros(num_classes, features_ND.shape[1], dtype=torch.float64)
    means_CD = means_CD.index_add_(0, labels_N, features_ND) / counts_C[:, None].clamp(min=1)
    centred_ND = features_ND - means_CD[labels_N]
    # Each class weighs the same, however many images of it there are.
    weighted = centred_ND / counts_C[labels_N, None]
    covariance = weighted.T @ centred_ND / max(1, int((counts_C > 0).sum()))
    size = len(covariance)
    target = torch.eye(size, dtype=torch.float64) * max(float(covariance.trace()) / size, 1e-12)
    shrunk = (1 - shrinkage) * covariance + shrinkage * target
    weight_CD = torch.linalg.solve(shrunk, means_CD.T).T
    bias_C = (-0.5 * (weight_CD * means_CD).sum(1)).masked_fill(counts_C == 0, -torch.inf)
    return LinearHead(weight_CD.float(), bias_C.float())


def available(evidence: Evidence) -> tuple[Tensor, Tensor]:
    """Features (in double precision) and labels at hand: exemplars of past classes, all images of new ones."""
    of_past = evidence.exemplar_labels_E < evidence.past
    features = torch.cat([evidence.exemplar_features_ED[of_past], evidence.new_features_MD]).double()
    return features, torch.cat([evidence.exemplar_labels_E[of_past], evidence.new_labels_M])
