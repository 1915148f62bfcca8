"""Changes of files: of their bytes, and of the values in JSON. The same seed gives the same change."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

_NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
_PIECES = (
    b"\0", b"\xff" * 4, b"\n", b"{", b"[", b'"', b"\\ud800", b"NaN", b"1e999", b"-1", b"9" * 5000, b"../../etc/passwd",
    b"[/b]", b"\x1b[2J", b"&a [*a, *a]", b"\xe2\x80\xa8", b"null", b"[" * 2000, b",", b" ", b"/dev/zero", b"\x1f\x8b",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 10**6, 2**31, 2**63 - 1, -(2**63), 0.5, -0.0, 1e308, "", "x", "x" * 3000, "[/b]",
    "$x$", "../../x", "a\nb\x1b[2J", "\u202e", "nan", [], {}, [[]], [None], [1, 2, 3], {"a": 1}, "10", "=1+1",
    "<script>",
)  # fmt: skip


_HEAD = 4096
"""Bytes at the beginning of a file, where it says what is in it."""


def mutated(data: bytes, draw: Random) -> bytes:
    """Some changes of bytes, one after the other; of a large file, half of the time, at its beginning."""
    head, rest = (data[:_HEAD], data[_HEAD:]) if len(data) > 2 * _HEAD and draw.random() < 0.5 else (data, b"")
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        head = draw.choice(_CHANGES)(bytearray(head), draw)
    return head + rest


def _flip(data: bytearray, draw: Random) -> bytes:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _set(data: bytearray, draw: Random) -> bytes:
    if data:
        data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    return bytes(data)


def _number(data: bytearray, draw: Random) -> bytes:
    width, at = draw.choice((1, 2, 4, 8)), draw.randrange(len(data) + 1)
    value = draw.choice(_NUMBERS) % (1 << 8 * width)
    data[at : at + width] = value.to_bytes(width, draw.choice(("little", "big")))
    return bytes(data)


def _part(data: bytearray, draw: Random) -> slice:
    begin = draw.randrange(len(data) + 1)
    return slice(begin, min(len(data), begin + draw.choice((1, 2, 4, 16, 100, 5000))))


def _delete(data: bytearray, draw: Random) -> bytes:
    del data[_part(data, draw)]
    return bytes(data)


def _repeat(data: bytearray, draw: Random) -> bytes:
    part, at = data[_part(data, draw)], draw.randrange(len(data) + 1)
    data[at:at] = part * draw.choice((1, 2, 50))
    return bytes(data)


def _zero(data: bytearray, draw: Random) -> bytes:
    part = _part(data, draw)
    data[part] = bytes(part.stop - part.start)
    return bytes(data)


def _piece(data: bytearray, draw: Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    data[at : at + draw.choice((0, 0, 1, 4))] = draw.choice(_PIECES)
    return bytes(data)


def _cut(data: bytearray, draw: Random) -> bytes:
    return bytes(data[: draw.randrange(len(data) + 1)])


_CHANGES: tuple[Callable[[bytearray, Random], bytes], ...] = (
    _flip, _flip, _set, _set, _number, _number, _delete, _repeat, _zero, _piece, _cut,
)  # fmt: skip


def mutated_json(text: bytes, draw: Random) -> bytes:
    """The same JSON, or JSON in lines, with some values or keys that are others."""
    lines = text.split(b"\n")
    at = draw.choice([n for n, line in enumerate(lines) if line.strip()]) if text.count(b"\n{") else None
    value = json.loads(text if at is None else lines[at])
    for _ in range(draw.choice((1, 1, 2, 4))):
        value = _changed(value, draw)
    made = json.dumps(value).encode()
    if at is None:
        return made
    return b"\n".join([*lines[:at], made, *lines[at + 1 :]])


def _changed(value: Any, draw: Random) -> Any:
    places = list(_places(value))
    holder, key = draw.choice(places) if places else (None, None)
    new = copy.deepcopy(draw.choice(_VALUES))
    if holder is None:
        return new
    what = draw.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif what == 2 and isinstance(holder, dict):
        holder[draw.choice(("x", "", "[/b]", "seeds", "state", "\u202e"))] = new
    elif what == 3:
        other, inner = draw.choice(places)
        holder[key] = copy.deepcopy(other[inner])
    else:
        holder[key] = new
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(one)
