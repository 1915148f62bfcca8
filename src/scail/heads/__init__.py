"""Heads: pure functions from what a bounded learner may keep (`Evidence`) to a classifier (`LinearHead`)."""

from scail.heads.bic import bic
from scail.heads.duet import duet, icarl_duet
from scail.heads.evidence import Evidence
from scail.heads.ft import ft
from scail.heads.il2m import il2m
from scail.heads.init import ft_init, ft_init_l2
from scail.heads.l2 import ft_l2
from scail.heads.linear_head import LinearHead
from scail.heads.nem import ft_nem
from scail.heads.prior import prior
from scail.heads.ridge import ridge
from scail.heads.scail import scail, scale_past_weights
from scail.heads.siw import siw, siw_mc
from scail.heads.slda import slda
from scail.heads.svm import svm
from scail.heads.tau_norm import tau_norm
from scail.heads.wa import wa

__all__ = [
    "Evidence", "LinearHead", "bic", "duet", "ft", "ft_init", "ft_init_l2", "ft_l2", "ft_nem", "icarl_duet", "il2m",
    "prior", "ridge", "scail", "scale_past_weights", "siw", "siw_mc", "slda", "svm", "tau_norm", "wa",
]  # fmt: skip
