"""Draws the pictures of the documents: `python docs/pictures.py`; with a run's folder those of the run as well.

Needs playwright and chromium.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from scail import load_dataset
from scail.report.document import columns_of
from scail.report.drawing import literal
from scail.report.figures_cost import cost
from scail.report.settings import group_by_settings
from scail.results.archive import Archive

HERE = Path(__file__).parent / "images"
ROOT = Path(__file__).parents[1]
IN_COST = (
    "ft", "ft_l2", "scail", "lwf", "icarl", "bic", "er", "gdumb", "lucir", "wa", "podnet", "der", "deesil", "ncm",
    "slda",
)  # fmt: skip
"""More could not be told apart in a figure."""


def contact_sheet(rows: int = 10, examples: int = 3, enlarge: int = 2) -> Image.Image:
    """A few test images of every class of `glyphs`, ten classes a row."""
    dataset = load_dataset("glyphs")
    classes, (_, height, width) = len(dataset.class_names), dataset.shape
    images = dataset.test.images[:, 0].reshape(classes, -1, height, width)[:, :examples]
    tiles = images.reshape(rows, classes // rows, examples, height, width).permute(0, 3, 1, 2, 4)
    sheet = Image.fromarray(tiles.reshape(rows * height, classes // rows * examples * width).numpy())
    return sheet.resize((sheet.width * enlarge, sheet.height * enlarge), Image.Resampling.NEAREST)


def cost_figure(path: Path) -> None:
    """Accuracy against cost, from the kept numbers of methods on digits."""
    (group,) = group_by_settings(Archive(ROOT / "results" / "digits").all())
    (summary,) = columns_of(group).values()
    alike = {"parameters": 0, "flops": 0}  # only what is kept and what is trained is drawn
    chosen = [one for one in summary["methods"] if one["method"] in IN_COST]
    methods = [{**one, "cost": {**one["cost"], **alike}} for one in chosen]
    drawn = cost({**summary, "methods": methods}, "top1")
    assert drawn is not None
    literal(drawn).savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


def serve_picture(browser: Browser) -> Image.Image:
    """The page of `scail serve --demo`, which was asked about a letter that it does not know."""
    command = [sys.executable, "-m", "scail", "serve", "--demo", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert server.stdout is not None
        address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        page.wait_for_selector("#facts:has-text('Left out')", timeout=600_000)
        page.click("#samples .sample >> nth=21")  # an L, which it does not know
        page.wait_for_selector(".answer .near img >> nth=2")
        bottom = page.locator("#try").bounding_box()
        assert bottom is not None
        clip = {"x": 0, "y": 0, "width": 1200, "height": bottom["y"] + bottom["height"] + 20}
        return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")  # type: ignore[arg-type]
    finally:
        server.terminate()


def report_picture(browser: Browser, run: Path) -> Image.Image:
    """Part of a run's page, light and dark."""
    parts = []
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
    cost_figure(HERE / "cost.svg")
    with chromium() as browser:
        serve_picture(browser).save(HERE / "serve.png", optimize=True)
        if len(sys.argv) > 1:
            report_picture(browser, Path(sys.argv[1])).save(HERE / "report.png", optimize=True)
