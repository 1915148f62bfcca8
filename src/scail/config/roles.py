"""What a setting does to the numbers of a run: said where it is declared, so that no list of names has to be kept."""

from __future__ import annotations

from dataclasses import field
from typing import Any

NUMBER = "number"
"""Changes what is measured. The role of every setting that says nothing else."""
ASKED = "asked"
"""What is asked for. It stands in a settled configuration as it came out: 2 % as a number of images."""
WAY = "way"
"""How it is done: it changes no number."""


def asked(default: Any) -> Any:
    """A setting that stands in the settled configuration in another form."""
    return field(default=default, metadata={"role": ASKED})


def settled(default: Any, usual: Any) -> Any:
    """A setting that is settled on the machine that runs it. Records have what it came to; without it: `usual`."""
    return field(default=default, metadata={"usual": usual})


def way(default: Any) -> Any:
    """A setting that changes no number."""
    return field(default=default, metadata={"role": WAY})
