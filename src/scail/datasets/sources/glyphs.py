"""`glyphs`: characters of several scripts, drawn from the fonts that matplotlib installs.

An embedded data set that needs no download. Each image is one character in a random font, distorted by a random
affine map, with random contrast and noise. Same settings, same fonts: same pixels.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, features

from scail.config import DataSettings
from scail.datasets.dataset import Dataset, Split
from scail.storage.cache import cached_tensors

LATIN = "ABCDEFGHJKLMNPQRSTUVWXYZ" + "abdefhmnt"
DIGITS = "23456789"
GREEK = "ΓΔΘΛΞΠΣΦΨΩαβδεζλμξσω"
CYRILLIC = "БДЖИЦЧШЩЭЮЯЫЂЉЊ"
SYMBOLS = "&@#%$£€§¶©?+=±≠∞∇∫√⊕†←→¿"
MORE = "↑↓⇒⇐⇑⇓≡∉⊃⊆⊇⊗⊥∠≤≥◊½¼¾«»№™ÆŒÞɮʤʨǂϞϠ⌐"
CHARACTERS = LATIN + DIGITS + GREEK + CYRILLIC + SYMBOLS + MORE
"""All characters, the 100 of the default set first. None looks like another in a second script or case: no O, o, 0
or О; no I, l, 1 or |; A but neither Α nor А; S but not s; Φ but neither φ nor ф; 3 but not З (a test measures it)."""

FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSansMono-Bold",
    "DejaVuSerif", "DejaVuSerif-Bold", "STIXGeneral", "STIXGeneralBol",
)  # fmt: skip
"""Fonts of matplotlib that hold every character above (a test checks it). No serif italics: they turn т into m."""

VERSION = 1  # raise it when the drawing changes: cached images are then drawn anew
_SCALE = 4  # characters are set at four times the image size, then sampled down: no stair-steps after distortion


def load(_place: Path | None, settings: DataSettings) -> Dataset:
    """As many characters and images, of such a size, as the settings ask for."""
    asked = {"classes": settings.classes, "train": settings.images_per_class, "size": settings.image_size}
    return load_glyphs(**{key: value for key, value in asked.items() if value is not None})


def load_glyphs(classes: int = 100, train: int = 100, test: int = 20, size: int = 20, seed: int = 0) -> Dataset:
    """Draw (or read from the cache) `classes` characters with `train` and `test` images each, `size` pixels square."""
    if not 2 <= classes <= len(CHARACTERS):
        raise ValueError(f"glyphs: classes is {classes}, expected 2 to {len(CHARACTERS)}")
    if train < 1 or test < 1:
        raise ValueError(f"glyphs: {train} training and {test} test images per class, expected at least 1 of each")
    if not 8 <= size <= 256:
        raise ValueError(f"glyphs: image size is {size}, expected 8 to 256 pixels")

    def draw() -> dict[str, torch.Tensor]:
        return {
            part: torch.from_numpy(np.concatenate([_draw_class(c, part, n, size, seed) for c in range(classes)]))
            for part, n in (("train", train), ("test", test))
        }

    settings = {"classes": classes, "train": train, "test": test, "size": size, "seed": seed}
    images = cached_tensors(f"glyphs-{_recipe_hash(settings)}", draw)
    splits = {
        part: Split(images[part].unsqueeze(1), torch.arange(classes).repeat_interleave(n))
        for part, n in (("train", train), ("test", test))
    }
    return Dataset("glyphs", tuple(CHARACTERS[:classes]), splits["train"], splits["test"], mirror=False)


def font_path(name: str) -> Path:
    """Where matplotlib keeps this font."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"


def _recipe_hash(settings: dict[str, int]) -> str:
    """Everything that decides the pixels: settings, font files, and the libraries that draw."""
    fonts = [hashlib.sha256(font_path(name).read_bytes()).hexdigest() for name in FONTS]
    drawn_by = [VERSION, CHARACTERS, PIL.__version__, features.version("freetype2"), np.__version__]
    return hashlib.sha256(json.dumps([settings, fonts, drawn_by]).encode()).hexdigest()[:16]


def _draw_class(index: int, part: str, count: int, size: int, seed: int) -> NDArray[np.uint8]:
    """`count` images of one character: count x size x size, uint8."""
    rng = np.random.default_rng([seed, index, ("train", "test").index(part)])
    stamps = [_stamp(CHARACTERS[index], name, size * _SCALE) for name in FONTS]
    drawn = [_distort(stamps[rng.integers(len(stamps))], rng, size) for _ in range(count)]
    ink = np.stack([np.asarray(image, np.float32) for image in drawn]) / 255
    paper, contrast = rng.uniform(0, 90, (count, 1, 1)), rng.uniform(50, 165, (count, 1, 1))
    noise = rng.normal(0, 1, ink.shape) * rng.uniform(5, 30, (count, 1, 1))
    pixels: NDArray[np.uint8] = np.clip(paper + contrast * ink + noise, 0, 255).round().astype(np.uint8)
    return pixels


def _stamp(character: str, font: str, side: int) -> Image.Image:
    """The character alone, centred by its own outline, as large as 60 % of the square."""
    # Basic layout: the same outlines whether or not the optional text-shaping library is installed.
    face = ImageFont.truetype(str(font_path(font)), side, layout_engine=ImageFont.Layout.BASIC)
    left, top, right, bottom = face.getbbox(character)
    drawn = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
    ImageDraw.Draw(drawn).text((1 - left, 1 - top), character, font=face, fill=255)
    scale = 0.6 * side / max(drawn.size)
    drawn = drawn.resize(
        (max(1, round(drawn.width * scale)), max(1, round(drawn.height * scale))), Image.Resampling.BOX
    )
    square = Image.new("L", (side, side))
    square.paste(drawn, ((side - drawn.width) // 2, (side - drawn.height) // 2))
    return square


def _distort(stamp: Image.Image, rng: np.random.Generator, size: int) -> Image.Image:
    """Rotate, shear, stretch and shift; then sample down to `size` pixels."""
    angle, shear = rng.uniform(-0.26, 0.26), rng.uniform(-0.25, 0.25)  # about 15 degrees each
    stretch = np.exp(rng.uniform(-0.25, 0.2, 2))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    inverse = np.linalg.inv(turn @ np.array([[1, shear], [0, 1]]) @ np.diag(stretch)) * (stamp.width / size)
    centre = np.full(2, stamp.width / 2)
    shift = centre - inverse @ (np.full(2, size / 2) + rng.uniform(-0.1, 0.1, 2) * size)
    (a, b), (d, e) = inverse
    soft = stamp.reduce(2) if stamp.width >= 2 * size else stamp
    half = soft.width / stamp.width
    return soft.transform(
        (size, size), Image.Transform.AFFINE,
        (a * half, b * half, shift[0] * half, d * half, e * half, shift[1] * half), Image.Resampling.BILINEAR,
    )  # fmt: skip
