"""What the site is made of: pages that are generated, and those that list what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import scail

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "python"


def test_every_public_name_has_its_place_in_the_reference():
    named = set(re.findall(r"^::: scail\.(\w+)$", "\n".join(path.read_text() for path in PAGES.glob("*.md")), re.M))
    told = {"METHODS", "RECIPES"}  # tables
    generated = {"heads", "scale_past_weights"}
    assert named | told | generated == set(scail.__all__)
