"""The layer as it was trained, where each class has weights for the features of its own state and for no others."""

from __future__ import annotations

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def own_features(evidence: Evidence) -> LinearHead:
    """The scores of all classes, to be compared: nobody tells the state of an image."""
    return LinearHead(evidence.weight_CD, evidence.bias_C, sparse=True)
