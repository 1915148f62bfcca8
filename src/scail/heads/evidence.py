"""What a head may see (`Evidence`) and what it gives (`LinearHead`): types only.

Shapes: C classes seen so far, of which the first `past` arrived before the current state; D features; S states so far;
E exemplars in memory; M training images of the current state's new classes; N images to score.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Evidence:
    """What a learner with bounded memory may keep after a state, and no more."""

    weight_CD: Tensor
    """The current linear layer."""
    bias_C: Tensor
    initial_weight_CD: Tensor
    """Initial classifiers: each class's row as learned in the state where the class was new."""
    initial_bias_C: Tensor
    first_state_C: Tensor
    """The state in which each class was new."""
    train_count_C: Tensor
    """Training images of each class in the current state (exemplars, for past classes)."""
    initial_score_C: Tensor
    """Mean raw score of each class on its own training images in its initial state."""
    exemplar_score_C: Tensor
    """Mean raw score of each class on its own exemplars now; 0 for a class without exemplars."""
    top_score_S: Tensor
    """Per state, the mean over its new classes' training images of the highest raw score."""
    exemplar_features_ED: Tensor
    exemplar_labels_E: Tensor
    new_features_MD: Tensor
    new_labels_M: Tensor

    @property
    def state(self) -> int:
        """The current state k."""
        return int(self.first_state_C[-1])

    @property
    def past(self) -> int:
        """How many classes are past classes."""
        return int((self.first_state_C < self.state).sum())


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

    def linear_scores(self, features_ND: Tensor) -> Tensor:
        """N x C scores before candidates are chosen."""
        features_ND = F.normalize(features_ND, dim=1) if self.unit_features else features_ND
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
