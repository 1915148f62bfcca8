"""Files that nobody vouches for: plain ones, read up to a bound; JSON out of them. No error without the file's name."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

MIB = 2**20
MOST_RECORD = 64 * MIB
"""Bytes of a file that is one JSON record."""
MOST_LINES = 512 * MIB
"""Bytes of a file with a JSON record in each line."""
_DEEPEST = 100
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def size_text(size: float) -> str:
    """So many bytes, in words.

    >>> size_text(12), size_text(3 * 2**30)
    ('12 bytes', '3 GiB')
    """
    for unit, one in (("GiB", 2**30), ("MiB", MIB), ("KiB", 2**10)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size:.0f} bytes"


def why(error: Exception) -> str:
    """What went wrong, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.contextmanager
def opened_plain(path: Path, most: int) -> Iterator[tuple[BinaryIO, int]]:
    """A plain file of at most so many bytes, and its size. OSError where it cannot be read; no pipe is waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ValueError(f"{path}: not a plain file")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > most:
            raise ValueError(f"{path}: {size_text(status.st_size)}, expected at most {size_text(most)}")
        yield file, status.st_size


def read_bounded(path: Path, most: int) -> bytes:
    """What is in it. OSError where it cannot be read."""
    with opened_plain(path, most) as (file, size):
        data = file.read(size + 1)  # not `most`: so much would be set aside
    if len(data) > most:
        raise ValueError(f"{path}: grows while it is read; expected at most {size_text(most)}")
    return data


def read_text(path: Path, most: int) -> str:
    """The same as text in UTF-8."""
    try:
        return read_bounded(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None


def parsed(data: bytes | str) -> Any:
    """JSON as Python's values. What is no JSON, or could not be written as JSON again, is a ValueError."""
    try:
        value = json.loads(data, parse_int=_whole, parse_float=_finite, parse_constant=_no_number)
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        _check_depth(value)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()  # half of a character is no text
    except RecursionError:
        raise ValueError("not JSON that can be read: too many brackets within brackets") from None
    except UnicodeError:
        raise ValueError("not JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error})") from None
    return value


def _check_depth(value: Any) -> None:
    """Whoever goes through it may go down step by step."""
    level = [value]
    for _ in range(_DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [one for of in inner for one in of if isinstance(one, dict | list)]
        if not level:
            return
    raise RecursionError


def _whole(text: str) -> int:
    """A whole number that numpy and torch can take, too."""
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**63:
        raise ValueError(f"{text[:25]}...: expected whole numbers of at most 64 bits")
    return value


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        _no_number(text[:25])
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"not JSON: {text} is no number")


def read_json(path: Path, most: int = MOST_RECORD) -> dict[str, Any]:
    """The JSON record in a file."""
    try:
        value = parsed(read_bounded(path, most))
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except ValueError as error:
        raise ValueError(_named(path, error)) from None
    return value


def read_json_lines(path: Path, most: int = MOST_LINES) -> list[dict[str, Any]]:
    """The JSON record in each line of a file."""
    found = []
    for number, line in enumerate(read_text(path, most).split("\n"), 1):
        try:
            value = parsed(line) if line.strip() else None
            if not isinstance(value, dict | None):
                raise ValueError("not a JSON object")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if value is not None:
            found.append(value)
    return found


def _named(path: Path, error: ValueError) -> str:
    return str(error) if str(error).startswith(str(path)) else f"{path}: {error}"
