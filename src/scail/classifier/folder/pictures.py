"""Images of a classifier as PNG files, each named by a hash of its pixels."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from scail.classifier.folder.record import DamagedModel, FolderError, read_inside
from scail.classifier.inputs import Shape
from scail.classifier.model import digest_of_pixels
from scail.datasets.images.decode import BROKEN
from scail.storage.reading import why

try:
    from isal.isal_zlib import compress as quick_pack  # four times as fast
except ImportError:  # there is none for this processor

    def quick_pack(data: Any, /, level: int = 1, wbits: int = zlib.MAX_WBITS) -> bytes:
        """The same by zlib, with the strategy that suits differences of rows."""
        packer = zlib.compressobj(level, zlib.DEFLATED, wbits, strategy=zlib.Z_RLE)
        return packer.compress(data) + packer.flush()


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_UP = 2  # the filter of a row that is written as its difference to the one above
_COLOURS = {1: 0, 3: 2}  # channels, and how PNG says so


def digest_of(image: Tensor) -> str:
    """A hash of an image's shape and pixels: the name of its file, and its checksum."""
    return digest_of_pixels(image).hex()


def to_png(image: Tensor) -> bytes:
    """channels x height x width pixels as a PNG file: nothing is lost.

    Each row is written as its difference to the row above. Pillow would try five ways for every row, and take eight
    times as long for a file that is a tenth smaller.
    """
    channels, height, width = image.shape
    lines = np.empty((height, 1 + width * channels), np.uint8)
    lines[:, 0], pixels = _UP, lines[:, 1:].reshape(height, width, channels)  # a view
    for channel, rows in enumerate(image.numpy()):
        pixels[0, :, channel] = rows[0]
        np.subtract(rows[1:], rows[:-1], out=pixels[1:, :, channel])
    header = struct.pack(">2I5B", width, height, 8, _COLOURS[channels], 0, 0, 0)
    data = quick_pack(lines, 1)
    return b"".join([_SIGNATURE, _chunk(b"IHDR", header), _chunk(b"IDAT", data), _chunk(b"IEND", b"")])


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def read_png(root: Path, name: str, shape: Shape) -> Tensor:
    """The image in this file of the folder: of the expected size, and with the pixels that its name says."""
    most = 4 * shape.channels * shape.height * shape.width + 65536
    try:
        with Image.open(BytesIO(read_inside(root, name, most)), formats=["PNG"]) as opened:
            mode = "L" if shape.channels == 1 else "RGB"
            if opened.size != (shape.width, shape.height) or opened.mode != mode:
                raise DamagedModel(f"{root / name}: {opened.size} {opened.mode}, expected {shape} in {mode}")
            pixels = np.array(opened)
    except (FileNotFoundError, FolderError):
        raise
    except UnidentifiedImageError as error:
        raise DamagedModel(f"{root / name}: is no PNG file; restore it from a copy") from error
    except BROKEN as error:
        raise DamagedModel(f"{root / name}: cannot be read ({why(error)}); restore it from a copy") from error
    image = torch.from_numpy(pixels.reshape(shape.height, shape.width, shape.channels)).permute(2, 0, 1).contiguous()
    if digest_of(image) != Path(name).stem:
        raise DamagedModel(f"{root / name}: is not the image that it was; restore it from a copy")
    return image
