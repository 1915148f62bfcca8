"""Tensors that are made once and kept in the user's cache directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from scail.storage.atomic import write_bytes

if TYPE_CHECKING:
    from torch import Tensor

_KEEP_IMAGES = "SCAIL_IMAGE_CACHE"
IMAGES = "images-"
"""How names of decoded copies of images begin."""


def cache_dir() -> Path:
    """Where scail keeps what it can make again: `SCAIL_CACHE`, or the user's cache directory."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("SCAIL_CACHE") or user_cache_dir("scail", appauthor=False))


def keep_images(keep: bool) -> None:
    """Whether this process, and those that it starts, keep decoded copies of images; else SCAIL_IMAGE_CACHE decides."""
    if not keep:
        os.environ[_KEEP_IMAGES] = "no"


def images_are_kept() -> bool:
    """Whether decoded copies of images are kept: unless SCAIL_IMAGE_CACHE is no."""
    return os.environ.get(_KEEP_IMAGES, "yes").lower() not in ("no", "0", "false", "off")


def kept_images() -> list[Path]:
    """The decoded copies of images that there are."""
    return sorted(cache_dir().glob(f"{IMAGES}*.safetensors"))


def cached_tensors(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors kept under `name`; made, and kept for the next time, where there are none or the file is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load, save

    path = cache_dir() / f"{name}.safetensors"
    try:
        found = load(path.read_bytes())
        with contextlib.suppress(OSError):
            path.touch()  # it was used
        return found
    except (OSError, SafetensorError):
        tensors = make()
    keep(path, save(tensors))
    return tensors


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache. One that cannot be written (full or read-only disk) costs time, not results."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content, flushed=False)
