"""IL2M: past scores are lifted by what is known of them from their initial states, where a new class would win."""

from __future__ import annotations

import torch

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead


def il2m(evidence: Evidence) -> LinearHead:
    """If the highest raw score is a new class's, past scores are multiplied; otherwise nothing changes.

    The factor of class c, new in state i: (its mean score on its images in i / on its exemplars now) * (mean top score
    of the current state k / of state i). Scores are raw, as in the method's own code. Where a mean is not positive the
    ratio has no meaning and is 1.
    """
    past = evidence.past
    origin = evidence.first_state_C[:past]
    of_class = _ratio(evidence.initial_score_C[:past], evidence.exemplar_score_C[:past])
    of_state = _ratio(evidence.top_score_S[-1].expand(past), evidence.top_score_S[origin])
    return LinearHead(evidence.weight_CD, evidence.bias_C, past=past, past_factor_P=of_class * of_state)


def _ratio(above: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
    usable = (above > 0) & (below > 0)
    return torch.where(usable, above / torch.where(usable, below, 1), 1)
