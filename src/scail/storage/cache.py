"""What is made once and kept in the user's cache directory, with checksums: what is damaged there is made again."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from scail.storage.atomic import ASIDE, LEFT
from scail.storage.flushing import Flushed
from scail.storage.sealed import BrokenSeal, read_sealed, write_sealed

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


def half_written() -> list[Path]:
    """What processes that died were writing into the cache."""
    found = [path for path in cache_dir().glob(".scail-*") if ASIDE.fullmatch(path.name)]
    return [path for path in found if time.time() - path.stat().st_mtime > LEFT]


def cached_tensors(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors kept under `name`; made, and kept for the next time, where there are none or the file is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load, save

    path = cache_dir() / f"{name}.safetensors"
    with contextlib.suppress(SafetensorError):
        if (data := kept(path)) is not None:
            return load(data)
    tensors = make()
    keep(path, save(tensors))
    return tensors


def kept(path: Path) -> bytes | None:
    """What `keep` wrote; None where there is nothing, or nothing whole."""
    try:
        content = read_sealed(path)
    except (OSError, BrokenSeal):
        return None
    with contextlib.suppress(OSError):
        path.touch()  # it was used
    return content


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache. One that cannot be written (full or read-only disk) costs time, not results."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(path, content, Flushed.NOTHING)
