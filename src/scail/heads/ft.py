"""FT: the current layer as it is."""

from __future__ import annotations

from scail.heads.evidence import Evidence, LinearHead


def ft(evidence: Evidence) -> LinearHead:
    """The layer as fine tuning left it."""
    return LinearHead(evidence.weight_CD, evidence.bias_C)
