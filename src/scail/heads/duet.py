"""Duets: what a network has learned of a class, and what the exemplars of the class say now, added."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.ft import ft
from scail.heads.ft_ridge import ft_ridge
from scail.heads.linear_head import LinearHead
from scail.heads.nem import ft_nem
from scail.heads.siw import siw_mc


def duet(evidence: Evidence) -> LinearHead:
    """Scores of SIW^mc plus scores of ridge, each divided by its mean spread over classes on the exemplars.

    SIW^mc knows a class from all its images, but in features of the past; ridge knows the present features, but past
    classes from few images. Of a class without images ridge has no opinion: its mean score.
    Without a single exemplar it is SIW^mc.
    """
    initial, present = siw_mc(evidence), ft_ridge(evidence)
    known_C = present.bias_C.isfinite()
    if not known_C.any() or not len(evidence.exemplar_labels_E):
        return initial
    neutral = 2 / known_C.sum() - 1  # for every image: one target of +1 and the others -1 have this mean
    return _added(evidence, known_C, (initial, LinearHead(present.weight_CD, present.bias_C.where(known_C, neutral))))


def icarl_duet(evidence: Evidence) -> LinearHead:
    """Scores of the layer plus products with the exemplar means, each divided by its spread as above.

    For a layer that distillation keeps up to date. Features are not scaled to unit length before they meet the means:
    so it is one linear classifier, and of an image with long features both sides say more. A class without exemplars
    gets the mean of the others. Without a single exemplar it is the layer.
    """
    layer, nearest = ft(evidence), ft_nem(evidence)
    known_C = nearest.bias_C.isfinite()
    if not known_C.any():
        return layer
    means_CD = nearest.weight_CD.where(known_C[:, None], nearest.weight_CD[known_C].mean(0))
    return _added(evidence, known_C, (layer, LinearHead(means_CD, torch.zeros_like(nearest.bias_C))))


def _added(evidence: Evidence, known_C: Tensor, heads: Iterable[LinearHead]) -> LinearHead:
    """The sum of these heads, each divided by the mean spread of its scores over the known classes, on exemplars."""
    weight_CD, bias_C = torch.zeros_like(evidence.weight_CD), torch.zeros_like(evidence.bias_C)
    for head in heads:
        spread = head.scores(evidence.exemplar_features_ED)[:, known_C].std(1, correction=0).mean()
        scale = torch.where(spread > 0, spread, 1)
        weight_CD += head.weight_CD / scale
        bias_C += head.bias_C / scale
    return LinearHead(weight_CD, bias_C)
