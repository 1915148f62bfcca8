"""Duet: what was learned of a class when it was new, and what its exemplars say now, added."""

from __future__ import annotations

import torch

from scail.heads.evidence import Evidence, LinearHead
from scail.heads.ridge import ridge
from scail.heads.siw import siw_mc


def duet(evidence: Evidence) -> LinearHead:
    """Scores of SIW^mc plus scores of ridge, each divided by its mean spread over classes on the exemplars.

    SIW^mc knows a class from all its images, but in features of the past; ridge knows the present features, but past
    classes from few images. Of a class without images ridge has no opinion: its mean score.
    Without a single exemplar it is SIW^mc.
    """
    initial, present = siw_mc(evidence), ridge(evidence)
    known_C = present.bias_C.isfinite()
    if not known_C.any() or not len(evidence.exemplar_labels_E):
        return initial
    neutral = 2 / known_C.sum() - 1  # for every image: one target of +1 and the others -1 have this mean
    weight_CD = torch.zeros_like(initial.weight_CD)
    bias_C = torch.zeros_like(initial.bias_C)
    for head in (initial, LinearHead(present.weight_CD, torch.where(known_C, present.bias_C, neutral))):
        spread = head.scores(evidence.exemplar_features_ED)[:, known_C].std(1, correction=0).mean()
        scale = torch.where(spread > 0, spread, 1)
        weight_CD += head.weight_CD / scale
        bias_C += head.bias_C / scale
    return LinearHead(weight_CD, bias_C)
