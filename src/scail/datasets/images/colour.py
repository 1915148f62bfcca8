"""Pixels of any kind as eight bits of red, green and blue."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_BITS_PER_SAMPLE = 258  # of a TIFF file
_REMEDY = "save it with 8 or 16 bits"


def white_of(image: Image.Image) -> int:
    """What white is in a grey picture of more than eight bits: TIFF may have twelve in sixteen."""
    bits = getattr(image, "tag_v2", {}).get(_BITS_PER_SAMPLE)
    return 4095 if bits == (12,) else 65535


def in_colour(image: Image.Image, white: int | None = None) -> Image.Image:
    """Eight bits of red, green and blue. `white`: of a picture that was copied; None: as its file says."""
    if image.mode == "F":
        image = Image.fromarray(_of_shares(np.asarray(image)))
    elif image.mode == "I" or image.mode.startswith("I;"):
        image = Image.fromarray(_of_whole(np.asarray(image), white or white_of(image)))
    if image.mode == "RGB":
        return image
    image.info.pop("transparency", None)  # Pillow would warn that it is lost
    return image.convert("RGB")


def _of_shares(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Fractions are of white; a picture with others says nothing of what white is."""
    low, high = float(pixels.min()), float(pixels.max())
    if not 0 <= low <= high <= 1:
        raise ValueError(f"pixels are fractions from {low:g} to {high:g}, expected 0 to 1; {_REMEDY}")
    return (pixels * 255).round().astype(np.uint8)


def _of_whole(pixels: NDArray[Any], white: int) -> NDArray[np.uint8]:
    """The upper eight bits."""
    low, high = int(pixels.min()), int(pixels.max())
    if not 0 <= low <= high <= white:
        raise ValueError(f"pixels are from {low} to {high}, expected 0 to {white}; {_REMEDY}")
    return (pixels // (white // 255)).astype(np.uint8)
