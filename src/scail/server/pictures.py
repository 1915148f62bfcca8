"""Pictures that strangers send: what is in them is looked at before it is decoded."""

from __future__ import annotations

import hashlib
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scail.classifier.answering import read_picture
from scail.datasets.images.decode import BrokenImage, open_image
from scail.server.limits import MIB, Limits

_KEPT_SIDE = 512  # pixels: the shorter side of a picture in the inbox


def check_picture(data: bytes, limits: Limits) -> None:
    """An error for what is no picture or too large; only its beginning is looked at."""
    if len(data) > limits.picture_bytes:
        raise BrokenImage(f"{len(data)} bytes, expected at most {limits.picture_bytes // MIB} MiB")
    if not data:
        raise BrokenImage("is empty, expected a picture")
    try:
        with open_image(BytesIO(data)) as opened:
            width, height = opened.size
    except Exception as error:  # decoders raise whatever they like
        raise BrokenImage("cannot be read as an image; expected JPEG, PNG, WebP, GIF, BMP or TIFF") from error
    if width * height > limits.pixels:
        raise BrokenImage(f"{width} x {height} pixels, expected at most {limits.pixels}")


def decoded(data: bytes, limits: Limits) -> NDArray[np.uint8]:
    """height x width x 3: the very pixels that `scail predict` reads."""
    check_picture(data, limits)
    try:
        return read_picture(data)
    except Exception as error:
        raise BrokenImage("cannot be read as an image: it is cut off or damaged") from error


def reduced(picture: NDArray[np.uint8]) -> bytes:
    """A JPEG of at most a few hundred pixels a side, without whatever the file said beside its pixels."""
    image, file = Image.fromarray(picture), BytesIO()
    scale = _KEPT_SIDE / min(image.size)
    if scale < 1:
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        image = image.resize(size, Image.Resampling.LANCZOS)
    image.save(file, "JPEG", quality=92)
    return file.getvalue()


def content_id(data: bytes) -> str:
    """A name of what is in a file."""
    return hashlib.sha256(data).hexdigest()[:32]
