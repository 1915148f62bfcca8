"""What a head gives.

Shapes: C classes, of which the first `past` (P) are past ones; D features; N images to score.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class LinearHead:
    """Scores = features @ weight.T + bias; perhaps on unit-length features, with few past candidates, with factors."""

    weight_CD: Tensor
    bias_C: Tensor
    unit_features: bool = False
    """Scale every feature vector to unit length first."""
    raw_weight_CD: Tensor | None = None
    """With `candidates`: the current layer, whose raw scores choose the candidates."""
    raw_bias_C: Tensor | None = None
    candidates: int | None = None
    """Only so many past classes, those with the highest raw scores, can be predicted for an image."""
    past: int = 0
    past_factor_P: Tensor | None = None
    """Factors on the scores of past classes, applied to images for which a new class has the highest score."""
    proxies: int = 1
    """So many rows for each class, one after the other (C * proxies x D). Its score is the mean of their products;
    they weigh the more, the larger they are (softmax)."""
    scale: float = 1.0
    """With several rows for each class: what this mean is multiplied by."""
    sparse: bool = False
    """Weights that are zero were never there: they cost nothing."""

    def linear_scores(self, features_ND: Tensor) -> Tensor:
        """N x C scores before candidates are chosen."""
        features_ND = F.normalize(features_ND, dim=1) if self.unit_features else features_ND
        if self.proxies > 1:
            each_NCK = (features_ND @ self.weight_CD.T).view(len(features_ND), len(self.bias_C), self.proxies)
            return self.bias_C + self.scale * (each_NCK * each_NCK.softmax(2)).sum(2)
        return torch.addmm(self.bias_C, features_ND, self.weight_CD.T)

    def scores(self, features_ND: Tensor) -> Tensor:
        """N x C scores; a class that cannot be predicted for an image has -inf there."""
        scores_NC = self.linear_scores(features_ND)
        if self.past_factor_P is not None:
            new_wins = scores_NC.argmax(1) >= self.past
            scores_NC[new_wins, : self.past] *= self.past_factor_P
        if self.candidates is None or self.past <= self.candidates:
            return scores_NC
        assert self.raw_weight_CD is not None and self.raw_bias_C is not None
        raw = torch.addmm(self.raw_bias_C[: self.past], features_ND, self.raw_weight_CD[: self.past].T)
        dropped = torch.ones_like(raw, dtype=torch.bool)
        dropped.scatter_(1, raw.topk(self.candidates, dim=1).indices, False)
        scores_NC[:, : self.past].masked_fill_(dropped, -torch.inf)
        return scores_NC
