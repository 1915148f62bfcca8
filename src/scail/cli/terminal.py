"""A console that prints what it is given: no name is taken for markup, or for an order to the terminal."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from scail.cli.shown import shown


class Terminal(Console):
    """Tables and lines on the terminal. What is to be bold is a `Text`."""

    def __init__(self, wide: int | None = None) -> None:
        """`wide`: as wide as that where the output is no terminal."""
        super().__init__(markup=False, emoji=False, highlight=False, width=None if sys.stdout.isatty() else wide)

    def render_str(self, text: str, **options: Any) -> Text:
        """What every text becomes that is printed, alone or in a table."""
        return super().render_str(shown(text, keep="\n"), **options)
