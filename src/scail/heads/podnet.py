"""PODNet's head: the similarity to several rows of each class, the more similar ones weighing more.

Shapes: C classes, D features, R rows: so many of each class, one after the other.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def podnet(evidence: Evidence) -> LinearHead:
    """The layer as it was trained. Every row of the evidence is as long as the learned scale."""
    features = evidence.new_features_MD.shape[1]
    rows_RD = evidence.weight_CD.reshape(-1, features)
    return LinearHead(
        F.normalize(rows_RD, dim=1),
        torch.zeros_like(evidence.bias_C),
        unit_features=True,
        proxies=evidence.weight_CD.shape[1] // features,
        scale=float(rows_RD.norm(dim=1).mean()),
    )
