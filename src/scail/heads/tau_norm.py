"""Tau-normalisation: rows divided by a power of their length; FT without biases at 0, FT^L2 at 1."""

from __future__ import annotations

import torch

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def tau_norm(evidence: Evidence, tau: float = 0.5) -> LinearHead:
    """Every row w becomes w / |w|^tau; no biases, as in FT^L2."""
    norms_C = evidence.weight_CD.norm(dim=1).clamp(min=1e-12)
    return LinearHead(evidence.weight_CD / norms_C[:, None] ** tau, torch.zeros_like(evidence.bias_C))
