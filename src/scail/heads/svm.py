"""DeeSIL's head: the SVMs that its trainer learned, on unit-length features."""

from __future__ import annotations

from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def svm(evidence: Evidence, svm_weight: Tensor, svm_bias: Tensor) -> LinearHead:
    """One linear SVM per class."""
    assert len(svm_weight) == len(evidence.first_state_C)
    return LinearHead(svm_weight, svm_bias, unit_features=True)
