"""Formulas become MathML when the site is built: browsers show it without a script, a font or a network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """What arithmatex has marked, set."""
    return _FORMULA.sub(lambda found: _set(found, page.file.src_uri), content)


def _set(found: re.Match[str], page: str) -> str:
    formula = html.unescape(found[2]).strip()
    made = convert(formula, display="block" if found[1] == "div" else "inline")
    if unknown := re.search(r">(\\[a-zA-Z]+)", made):
        raise PluginError(f"{page}: {unknown[1]} is not known to latex2mathml, in {formula}")
    return made
