"""Files that tell whether they are as they were written: a line with a checksum, then the content.

The checksum is of the file's name and its content. So a file that was exchanged with another is noticed, too.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from scail.storage.atomic import aside
from scail.storage.flushing import Flushed
from scail.storage.reading import opened_plain

_WORDS = b"scail, sha256 "
_LINE = len(_WORDS) + 64 + 1
_MOST = 64 * 2**30


class BrokenSeal(ValueError):
    """The file is not what was written under its name."""


def write_sealed(path: Path, content: bytes, flushed: Flushed = Flushed.NAME) -> None:
    """Write a file in one step, with its checksum."""
    with aside(path, flushed) as begun, begun.open("wb") as file:
        file.write(_line(path, content))
        file.write(content)


def read_sealed(path: Path) -> bytes:
    """The content, as it was written. Raises `BrokenSeal`, also of a file that has no checksum."""
    try:
        with opened_plain(path, _MOST) as (file, _):
            line = file.read(_LINE)
            content = file.read() if line.startswith(_WORDS) else b""
    except ValueError as error:
        raise BrokenSeal(str(error)) from None
    if line != _line(path, content):
        raise BrokenSeal(f"{path}: checksum does not match")
    return content


def _line(path: Path, content: bytes) -> bytes:
    digest = hashlib.sha256(path.name.encode(errors="surrogateescape") + b"\n")
    digest.update(content)
    return b"%b%b\n" % (_WORDS, digest.hexdigest().encode())
