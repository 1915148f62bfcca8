"""Images of a classifier as PNG files, each named by a hash of its pixels."""

from __future__ import annotations

import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from scail.classifier.folder.record import DamagedModel, FolderError, read_inside
from scail.classifier.inputs import Shape
from scail.classifier.model import digest_of_pixels
from scail.datasets.images.decode import BROKEN


def digest_of(image: Tensor) -> str:
    """A hash of an image's shape and pixels: the name of its file, and its checksum."""
    return digest_of_pixels(image).numpy().tobytes().hex()


def to_png(image: Tensor) -> bytes:
    """channels x height x width pixels as a PNG file: nothing is lost."""
    pixels, file = image.permute(1, 2, 0).contiguous().numpy(), BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(
        file, "PNG", compress_level=1, compress_type=zlib.Z_RLE
    )  # for photographs quicker than the usual way, and smaller
    return file.getvalue()


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
    except BROKEN as error:
        raise DamagedModel(f"{root / name}: cannot be read ({error}); restore it from a copy") from error
    image = torch.from_numpy(pixels.reshape(shape.height, shape.width, shape.channels)).permute(2, 0, 1).contiguous()
    if digest_of(image) != Path(name).stem:
        raise DamagedModel(f"{root / name}: is not the image that it was; restore it from a copy")
    return image
