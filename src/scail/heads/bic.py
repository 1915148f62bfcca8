"""BiC's head: the correction that its trainer learned, folded into the layer."""

from __future__ import annotations

from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def bic(evidence: Evidence, alpha: Tensor, beta: Tensor) -> LinearHead:
    """Scores of the newest classes become alpha * score + beta; those of past classes stay."""
    weight_CD, bias_C = evidence.weight_CD.clone(), evidence.bias_C.clone()
    past = evidence.past
    if past:  # in state 0 there is nothing to correct
        weight_CD[past:] *= alpha
        bias_C[past:] = alpha * bias_C[past:] + beta
    return LinearHead(weight_CD, bias_C)
