"""FT_init and FT_init^L2: past classes get their initial classifiers back."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def ft_init(evidence: Evidence) -> LinearHead:
    """Past rows and biases replaced by the initial ones; new ones as they are."""
    past = evidence.past
    weight_CD = torch.cat([evidence.initial_weight_CD[:past], evidence.weight_CD[past:]])
    bias_C = torch.cat([evidence.initial_bias_C[:past], evidence.bias_C[past:]])
    return LinearHead(weight_CD, bias_C)


def ft_init_l2(evidence: Evidence) -> LinearHead:
    """FT_init with rows of unit length and no biases."""
    head = ft_init(evidence)
    return LinearHead(F.normalize(head.weight_CD, dim=1), torch.zeros_like(head.bias_C))
