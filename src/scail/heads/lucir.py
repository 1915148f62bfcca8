"""LUCIR's head: cosines; and calibrated by the mean scores of past and of new classes, LUCIR^mc."""

from __future__ import annotations

import torch
from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def lucir(evidence: Evidence) -> LinearHead:
    """The layer as it was trained: unit-length features, and rows as long as the learned scale. No biases."""
    return LinearHead(evidence.weight_CD, torch.zeros_like(evidence.bias_C), unit_features=True)


def lucir_mc(evidence: Evidence) -> LinearHead:
    """Scores of past classes times (mean score of new classes / of past classes).

    It is the mean score of the own class: over the images of new classes, and over the exemplars of past ones. Where
    one of them is not positive, or there are no images, the ratio has no meaning and is 1.
    """
    head, past = lucir(evidence), evidence.past
    is_past = evidence.exemplar_labels_E < past
    of_past = _own_score(head, evidence.exemplar_features_ED[is_past], evidence.exemplar_labels_E[is_past])
    of_new = _own_score(head, evidence.new_features_MD, evidence.new_labels_M)
    factor_C = torch.ones_like(head.bias_C)
    if of_past > 0 and of_new > 0:
        factor_C[:past] = of_new / of_past
    return LinearHead(head.weight_CD * factor_C[:, None], head.bias_C, unit_features=True)


def _own_score(head: LinearHead, features_ND: Tensor, labels_N: Tensor) -> float:
    """The mean score of each image's own class; 0 without images."""
    if len(labels_N) == 0:
        return 0.0
    return float(head.scores(features_ND).gather(1, labels_N[:, None]).mean())
