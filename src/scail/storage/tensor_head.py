"""Safetensors files that nobody vouches for: their heads are held against their sizes before anything else is read."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from scail.storage.reading import MIB, opened_plain, parsed, size_text

_MOST_HEAD = 100 * MIB  # as the library itself has it
_MOST = 16 * 2**30


def check_head(file: BinaryIO, size: int) -> None:
    """An error unless a file of this size has just what its head tells of; the file is then at its beginning again."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, _MOST_HEAD):
        raise ValueError("not a safetensors file (its head has no size that can be)")
    try:
        head = parsed(file.read(length))
        ends = [one["data_offsets"][1] for name, one in head.items() if name != "__metadata__"]
        told = 8 + length + max(ends, default=0)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a safetensors file ({error})") from None
    if told != size:
        raise ValueError(f"not a whole safetensors file ({size_text(size)}, its head tells of {size_text(told)})")
    file.seek(0)


def read_tensor_file(path: Path) -> bytes:
    """What is in it. OSError where it cannot be read; ValueError, without the path, where it is none."""
    with opened_plain(path, _MOST) as (file, size):
        check_head(file, size)
        return file.read(size)
