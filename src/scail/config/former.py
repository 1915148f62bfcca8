"""Names that version 0.1 gave to what has another name now: they still stand in files."""

from __future__ import annotations

FORMER_METHODS = {"slda": "ft_slda", "ridge": "ft_ridge", "wa": "ft_wa"}
"""Heads of fine tuning: their names in version 0.1, and now."""


def present_name(method: str, trainer: str) -> str:
    """The name that a method of this trainer has now.

    >>> present_name("slda", "fine_tune"), present_name("slda", "frozen")
    ('ft_slda', 'slda')
    """
    return FORMER_METHODS.get(method, method) if trainer == "fine_tune" else method
