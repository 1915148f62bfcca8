"""WA: weight aligning. New rows are made as long, on average, as past ones."""

from __future__ import annotations

import torch

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def ft_wa(evidence: Evidence) -> LinearHead:
    """New rows (and biases, so that it is the new scores) times mean norm of past rows / mean norm of new rows."""
    past, norms_C = evidence.past, evidence.weight_CD.norm(dim=1)
    factor_C = torch.ones_like(norms_C)
    if past and norms_C[past:].mean() > 0:
        factor_C[past:] = norms_C[:past].mean() / norms_C[past:].mean()
    return LinearHead(evidence.weight_CD * factor_C[:, None], evidence.bias_C * factor_C)
