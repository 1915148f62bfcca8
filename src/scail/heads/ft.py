"""FT: the current layer as it is."""

from __future__ import annotations

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def ft(evidence: Evidence) -> LinearHead:
    """The layer as fine tuning left it."""
    return LinearHead(evidence.weight_CD, evidence.bias_C)
