"""FT^L2: every row of the current layer divided by its length."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def ft_l2(evidence: Evidence) -> LinearHead:
    """Rows of unit length; no biases, which would no longer be commensurate with the scores."""
    return LinearHead(F.normalize(evidence.weight_CD, dim=1), torch.zeros_like(evidence.bias_C))
