"""Draws the pictures of the README: `python docs/pictures.py` (contact sheet), and `... RUN` for a run's accuracy."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from PIL import Image

from scail import load_dataset

HERE = Path(__file__).parent / "images"


def contact_sheet(rows: int = 10, examples: int = 3, enlarge: int = 2) -> Image.Image:
    """A few test images of every class of `glyphs`, ten classes a row."""
    dataset = load_dataset("glyphs")
    classes, (_, height, width) = len(dataset.class_names), dataset.shape
    images = dataset.test.images[:, 0].reshape(classes, -1, height, width)[:, :examples]
    tiles = images.reshape(rows, classes // rows, examples, height, width).permute(0, 3, 1, 2, 4)
    sheet = Image.fromarray(tiles.reshape(rows * height, classes // rows * examples * width).numpy())
    return sheet.resize((sheet.width * enlarge, sheet.height * enlarge), Image.Resampling.NEAREST)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    contact_sheet().save(HERE / "glyphs.png", optimize=True)
    if len(sys.argv) > 1:
        for name in ("accuracy", "errors"):
            shutil.copyfile(Path(sys.argv[1]) / "figures" / f"{name}.png", HERE / f"{name}.png")
