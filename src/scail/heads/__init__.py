"""Heads: pure functions from what a bounded learner may keep (`Evidence`) to a classifier (`LinearHead`)."""

from scail.heads.bic import bic
from scail.heads.duet import duet, icarl_duet
from scail.heads.evidence import Evidence
from scail.heads.evidence_of import evidence_of
from scail.heads.fetril import fetril
from scail.heads.ft import ft
from scail.heads.ft_ridge import ft_ridge
from scail.heads.ft_slda import ft_slda
from scail.heads.ft_wa import ft_wa
from scail.heads.il2m import il2m
from scail.heads.init import ft_init, ft_init_l2
from scail.heads.l2 import ft_l2
from scail.heads.linear_head import LinearHead
from scail.heads.lucir import lucir, lucir_mc
from scail.heads.ncm import ncm, ncm_left_out
from scail.heads.nem import ft_nem
from scail.heads.own_features import own_features
from scail.heads.podnet import podnet
from scail.heads.prior import prior
from scail.heads.ridge import ridge, ridge_left_out
from scail.heads.scail import scail, scale_past_weights
from scail.heads.siw import siw, siw_mc
from scail.heads.slda import slda, slda_behind, slda_left_out
from scail.heads.svm import svm
from scail.heads.tau_norm import tau_norm
from scail.heads.threshold_moving import threshold_moving
from scail.moments import Moments

__all__ = [
    "Evidence", "LinearHead", "Moments", "bic", "duet", "evidence_of", "fetril", "ft", "ft_init", "ft_init_l2", "ft_l2",
    "ft_nem", "ft_ridge", "ft_slda", "ft_wa", "icarl_duet", "il2m", "lucir", "lucir_mc", "ncm", "ncm_left_out",
    "own_features", "podnet", "prior", "ridge", "ridge_left_out", "scail", "scale_past_weights", "siw", "siw_mc",
    "slda", "slda_behind", "slda_left_out", "svm", "tau_norm", "threshold_moving",
]  # fmt: skip
