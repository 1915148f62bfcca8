"""Tensors that are made once and kept in the user's cache directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from scail.storage.atomic import write_bytes


def cache_dir() -> Path:
    """Where scail keeps what it can make again: `SCAIL_CACHE`, or the user's cache directory."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("SCAIL_CACHE") or user_cache_dir("scail", appauthor=False))


def cached_tensors(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors kept under `name`; made, and kept for the next time, where there are none or the file is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load, save

    path = cache_dir() / f"{name}.safetensors"
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError):
        tensors = make()
    keep(path, save(tensors))
    return tensors


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache. One that cannot be written (full or read-only disk) costs time, not results."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content, flushed=False)
