"""FT^ridge: least squares from FT's features to classes."""

from __future__ import annotations

import torch

from scail.heads.evidence import Evidence
from scail.heads.ft_slda import available
from scail.heads.linear_head import LinearHead


def ft_ridge(evidence: Evidence, strength: float = 0.1) -> LinearHead:
    """Ridge regression on +1/-1 targets; every class weighs the same, the offset is not penalised.

    `strength` is relative to the mean variance of the features. A class without images cannot be predicted.
    """
    features_ND, labels_N = available(evidence)
    num_classes = len(evidence.bias_C)
    counts_C = torch.bincount(labels_N, minlength=num_classes)
    weight_N = 1.0 / counts_C[labels_N].double()
    weight_N /= weight_N.sum()
    targets_NC = torch.full((len(labels_N), num_classes), -1.0, dtype=torch.float64)
    targets_NC[torch.arange(len(labels_N)), labels_N] = 1.0
    centre_D, middle_C = weight_N @ features_ND, weight_N @ targets_NC
    centred_ND = features_ND - centre_D
    gram = (centred_ND * weight_N[:, None]).T @ centred_ND
    penalty = strength * max(float(gram.trace()) / len(gram), 1e-12)
    right = (centred_ND * weight_N[:, None]).T @ (targets_NC - middle_C)
    weight_CD = torch.linalg.solve(gram + penalty * torch.eye(len(gram), dtype=torch.float64), right).T
    bias_C = (middle_C - weight_CD @ centre_D).masked_fill(counts_C == 0, -torch.inf)
    return LinearHead(weight_CD.float(), bias_C.float())
