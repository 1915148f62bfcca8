"""Heads: pure functions from what a bounded learner may keep (`Evidence`) to a classifier (`LinearHead`)."""

from scail.heads.evidence import Evidence, LinearHead
from scail.heads.ft import ft
from scail.heads.init import ft_init, ft_init_l2
from scail.heads.l2 import ft_l2
from scail.heads.nem import ft_nem
from scail.heads.scail import scail, scale_past_weights

__all__ = ["Evidence", "LinearHead", "ft", "ft_init", "ft_init_l2", "ft_l2", "ft_nem", "scail", "scale_past_weights"]
