"""Prior correction: take the training shares of the classes out of the scores."""

from __future__ import annotations

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def prior(evidence: Evidence, tau: float = 1.0) -> LinearHead:
    """Scores minus tau * log(share of the class in the state's training images).

    A class without training images (no memory) is taken to have had one: its share is not known better.
    """
    counts_C = evidence.train_count_C.clamp(min=1).to(evidence.bias_C.dtype)
    return LinearHead(evidence.weight_CD, evidence.bias_C - tau * (counts_C / counts_C.sum()).log())
