"""Opening images: of the kinds below and no others, turned as EXIF data say, in eight-bit colour, one square of it.

Pillow decodes JPEG with libjpeg-turbo and lets other threads run meanwhile.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from stat import S_ISREG

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from scail.datasets.images.colour import in_colour, white_of
from scail.storage.reading import size_text, why

DECODE_VERSION = 2  # raise it when a change gives other pixels: decoded images are then made again
HEIF, READ_BY_PILLOW = {".heic", ".heif"}, {".avif"}
"""Endings of images that not every installation reads: the extra heif, and Pillow from 11.3 on."""
ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
ENDINGS |= HEIF if find_spec("pillow_heif") else set()
ENDINGS |= READ_BY_PILLOW if find_spec("PIL._avif") else set()
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", *(("AVIF",) if find_spec("PIL._avif") else ()))
"""What is taken for a picture, whatever its name: Pillow's names. It knows more, and some of them start programs."""
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
MOST_PIXELS = 89_478_485  # Pillow's own limit, a quarter of a gigabyte in colour: what is larger is taken for an attack
MOST_BYTES = 2**30
"""Of a file that is one picture."""
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # an error here, not a warning
_ORIENTATION = 0x0112
_TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
BROKEN = Exception
"""What Pillow raises when an image is not sound: nearly anything."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a region, in pixels."""


class BrokenImage(ValueError):
    """An image that cannot be read: truncated, not an image, or too large to be one."""


def open_image(file: str | Path | BytesIO) -> Image.Image:
    """Begin to read an image. What reads HEIF is loaded when the first such file comes."""
    if isinstance(file, BytesIO):
        head = file.getbuffer()[:12].tobytes()
    else:
        _check_file(Path(file))
        with Path(file).open("rb") as opened:
            head = opened.read(12)
    formats = FORMATS
    if head[4:8] == b"ftyp" and head[8:] in _HEIF_BRANDS:
        _read_heif()
        formats = ("HEIF", *FORMATS)
    try:
        return Image.open(file, formats=formats)
    except UnidentifiedImageError:
        what = "PostScript, which is a program" if b"%!PS" in head else "no picture"
        raise ValueError(f"{what}; expected {', '.join(FORMATS)}") from None


def _check_file(path: Path) -> None:
    """Nobody waits for a pipe, or reads a disk image."""
    status = path.stat()
    if not S_ISREG(status.st_mode):
        raise ValueError("not a plain file")
    if status.st_size > MOST_BYTES:
        raise ValueError(f"{size_text(status.st_size)}, expected at most {size_text(MOST_BYTES)}")


@cache
def _read_heif() -> None:
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise ValueError("HEIC and HEIF need another package: pip install 'scail[heif]'") from None
    register_heif_opener()


def read_region(image: str | Path | bytes, choose: Callable[[int, int], Box], size: int) -> NDArray[np.uint8]:
    """size x size x 3: the region that `choose(width, height)` picks, scaled."""
    try:
        with open_image(BytesIO(image) if isinstance(image, bytes) else image) as opened:
            width, height = opened.size
            _check_size(opened)
            left, top, right, bottom = choose(width, height)
            # JPEG: decode at a half, a quarter or an eighth, as long as the region keeps `size` pixels.
            opened.draft(None, (math.ceil(width * size / (right - left)), math.ceil(height * size / (bottom - top))))
            x, y = opened.width / width, opened.height / height
            turn = _TURN.get(opened.getexif().get(_ORIENTATION, 1))
            region = in_colour(opened).resize(
                (size, size), Image.Resampling.BILINEAR, box=(left * x, top * y, right * x, bottom * y)
            )
            return np.asarray(region if turn is None else region.transpose(turn))  # a square: turned last, for less
    except BROKEN as error:
        name = "an image in a table" if isinstance(image, bytes) else image
        raise BrokenImage(
            f"{name}: cannot be read as an image ({why(error)}); repair or remove it, or use --broken skip"
        ) from error


def open_turned(file: Path | BytesIO, smallest: int | None = None) -> Image.Image:
    """The whole image in colour, turned as its EXIF data say; a JPEG perhaps decoded at `smallest` pixels a side."""
    with open_image(file) as opened:
        _check_size(opened)
        if smallest is not None:
            opened.draft(None, (smallest, smallest))
        return in_colour(ImageOps.exif_transpose(opened), white_of(opened))


def _check_size(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels, expected at most {MOST_PIXELS}")


def middle_square(width: int, height: int, share: float = 1.0) -> Box:
    """The square in the middle, whose side is this share of the shorter side.

    >>> middle_square(30, 10)
    (10.0, 0.0, 20.0, 10.0)
    """
    side = min(width, height) * share
    return (width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2
