"""Tensors that are made once and kept in the user's cache directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from torch import Tensor


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
    write_aside(path, save(tensors))
    return tensors


def write_aside(path: Path, content: bytes) -> None:
    """Write a file of the cache in one step. One that cannot be written (full disk) costs time, not results."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(content)
            aside.replace(path)  # atomic: another process sees all of it or nothing
        finally:
            aside.unlink(missing_ok=True)
