"""Draws the pictures of the documents: `python docs/pictures.py` (contact sheet), `... RUN` for a run's as well."""

from __future__ import annotations

import io
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


def report_picture(run: Path) -> Image.Image:
    """Part of a run's page, light and dark; needs playwright and chromium."""
    from playwright.sync_api import sync_playwright

    parts = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme, place in (("light", "#summary"), ("dark", "#accuracy")):
            page = browser.new_page(viewport={"width": 1000, "height": 1250}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto((run / "report.html").resolve().as_uri())
            page.evaluate("place => document.querySelector(place).scrollIntoView({behavior: 'instant'})", place)
            parts.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    both = Image.new("RGB", (2 * parts[0].width, parts[0].height))
    for n, part in enumerate(parts):
        both.paste(part, (n * part.width, 0))
    return both.resize((both.width * 7 // 10, both.height * 7 // 10), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    contact_sheet().save(HERE / "glyphs.png", optimize=True)
    if len(sys.argv) > 1:
        for name in ("accuracy", "errors"):
            shutil.copyfile(Path(sys.argv[1]) / "figures" / f"{name}.png", HERE / f"{name}.png")
        report_picture(Path(sys.argv[1])).save(HERE / "report.png", optimize=True)
