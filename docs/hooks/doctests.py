"""Examples in docstrings, as Python's doctest has them, are set as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))(?=>>> )(.+?)(?=\n\n(?!>>> )|\Z)", re.DOTALL)


class Doctests(Extension):
    """Fences around each of them."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Of whatever has a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)
