"""A table in a file of MATLAB (level 5): rows of texts and numbers, and nothing else of what such a file may hold.

It is read here, within bounds: a file can make the reader of scipy crash.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from math import prod

Value = str | float | None
"""A text, or the first number of an array; None: anything else."""
_HEAD, _ORDER_AT = 128, 126
_NUMBERS = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
_TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_MATRIX, _COMPRESSED = 14, 15
_STRUCT, _CHAR = 2, 4
_MOST_CELLS = 1_000_000


def read_table(content: bytes, name: str, most: int) -> list[dict[str, Value]]:
    """The rows of the array of records with this name; unpacked, the file has at most so many bytes."""
    order = {b"IM": "<", b"MI": ">"}.get(content[_ORDER_AT:_HEAD])
    if order is None:
        raise ValueError("not a file of MATLAB, level 5")
    try:
        for kind, data in _elements(content[_HEAD:], order):
            if kind == _COMPRESSED:
                ((kind, data),) = _elements(_unpacked(data, most), order)
            if kind == _MATRIX and (found := _rows(data, order, name)) is not None:
                return found
    except (struct.error, zlib.error, UnicodeError) as error:
        raise ValueError(str(error)) from error
    raise ValueError(f"has no table {name}")


def _unpacked(data: bytes, most: int) -> bytes:
    unpacked = zlib.decompressobj().decompress(data, most + 1)
    if len(unpacked) > most:
        raise ValueError(f"more than {most} bytes unpacked")
    return unpacked


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """What stands one after the other: the kind of each, and its bytes. Small ones stand inside their own heads."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:
            kind, size, begin, after = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            begin = at + 8
            after = begin + size + (0 if kind == _COMPRESSED else -size % 8)
        if begin + size > len(data):
            raise ValueError("ends before it is whole")
        yield kind, data[begin : begin + size]
        at = after


def _rows(data: bytes, order: str, name: str) -> list[dict[str, Value]] | None:
    """The rows, if this array has the name; its records stand one after the other, field by field."""
    parts = _elements(data, order)
    flags, shape, called = (next(parts, (0, b""))[1] for _ in range(3))
    if called != name.encode():
        return None
    if _class_of(flags, order) != _STRUCT:
        raise ValueError(f"{name} is no array of records")
    (width,) = struct.unpack(f"{order}i", next(parts, (0, b""))[1])
    texts, count = next(parts, (0, b""))[1], prod(struct.unpack(f"{order}2i", shape))
    if width < 1 or not 0 <= count * (len(texts) // width) <= _MOST_CELLS:
        raise ValueError(f"{name} has a shape that cannot be")
    fields = [texts[i : i + width].partition(b"\0")[0].decode() for i in range(0, len(texts), width)]
    values = [_value(of, order) for _, of in parts]
    if len(values) != count * len(fields):
        raise ValueError(f"{name} has {len(values)} values, expected {count} of each of {len(fields)} fields")
    return [dict(zip(fields, values[i * len(fields) :], strict=False)) for i in range(count)]


def _value(data: bytes, order: str) -> Value:
    """The text or the number in an array."""
    parts = _elements(data, order)
    flags, _, _, (kind, content) = (next(parts, (0, b"")) for _ in range(4))
    if _class_of(flags[1], order) == _CHAR:
        wide = {"utf-16": "utf-16-", "utf-32": "utf-32-"}
        encoding = _TEXTS.get(kind, "latin-1")
        return content.decode(f"{wide[encoding]}{'le' if order == '<' else 'be'}" if encoding in wide else encoding)
    if kind in _NUMBERS and content:
        first: float = struct.unpack_from(f"{order}{_NUMBERS[kind]}", content)[0]
        return first
    return None


def _class_of(flags: bytes, order: str) -> int:
    """What kind of array begins with these flags."""
    number: int = struct.unpack_from(f"{order}I", flags)[0]
    return number & 0xFF
