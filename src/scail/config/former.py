"""Names that version 0.1 gave to what has another name now: they still stand in files."""

from __future__ import annotations

FORMER_METHODS = {"slda": "ft_slda", "ridge": "ft_ridge", "wa": "ft_wa"}
"""Heads of fine tuning: their names in version 0.1, and now."""
