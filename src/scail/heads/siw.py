"""SIW: standardised initial weights; with calibration by the mean top scores of the states, SIW_mc."""

from __future__ import annotations

import torch

from scail.heads.evidence import Evidence
from scail.heads.init import ft_init
from scail.heads.linear_head import LinearHead


def siw(evidence: Evidence) -> LinearHead:
    """Initial rows for past classes, current ones for new; every row minus its mean, divided by its deviation."""
    head = ft_init(evidence)
    weight_CD = head.weight_CD
    centred_CD = weight_CD - weight_CD.mean(1, keepdim=True)
    deviation_C = centred_CD.pow(2).mean(1, keepdim=True).sqrt()
    return LinearHead(centred_CD / torch.where(deviation_C > 0, deviation_C, 1), head.bias_C)


def siw_mc(evidence: Evidence) -> LinearHead:
    """SIW with the scores of classes of state i times (mean top score of the current state / of state i)."""
    head = siw(evidence)
    top_S = evidence.top_score_S
    usable = (top_S > 0) & (top_S[-1] > 0)
    factor_C = torch.where(usable, top_S[-1] / torch.where(usable, top_S, 1), 1)[evidence.first_state_C]
    return LinearHead(head.weight_CD * factor_C[:, None], head.bias_C * factor_C)
