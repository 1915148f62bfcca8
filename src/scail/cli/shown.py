"""Texts from elsewhere on a terminal: names of files and classes move no cursor, and begin no line of their own."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # within letters and signs of several parts
_BYTES = range(0xDC80, 0xDD00)  # of a name that is no UTF-8


def shown(text: object, keep: str = "") -> str:
    r"""The text with what cannot be seen written out; characters in `keep` stay.

    >>> shown("a\x1b[2J\nb"), shown("one\ntwo", keep="\n") == "one\ntwo"
    ('a\\x1b[2J\\nb', True)
    """
    text = str(text)
    return text if text.isprintable() else "".join(one if one in keep else _shown(one) for one in text)


def _shown(one: str) -> str:
    if one in _JOINERS or unicodedata.category(one) not in _HIDDEN:
        return one
    if ord(one) in _BYTES:
        return f"\\x{ord(one) - 0xDC00:02x}"
    return one.encode("unicode_escape").decode()


def shown_json(value: Any, indent: int | None = None) -> str:
    """As JSON: every character comes back, and none of them moves a cursor."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(one if one == "\n" or _shown(one) == one else json.dumps(one)[1:-1] for one in text)
