"""The report's page in a real browser: it works, asks for nothing, and fits a phone."""

from __future__ import annotations

import io
import os
import shutil
import time
from types import SimpleNamespace

import pytest
from PIL import Image

from scail.report.page_html import write_page
from scail.report.protocol import compare
from scail.report.runs import read_runs
from tests.report.report_runs import make_run

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
EVIL = "<script>window.broken = 1</script>"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def thumbnail():
    file = io.BytesIO()
    Image.new("L", (16, 16), 128).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory, thumbnail):
    """Six methods, six classes in three states, two seeds, and one more configuration."""
    place = tmp_path_factory.mktemp("report")
    methods = ("ft", "ft_nem", "ft_l2", "ft_init_l2", "scail", "ft_wa")
    names = [EVIL, "b", "c", "d", "e & f", "g"]
    for n, (memory, seed) in enumerate(((20, 1), (20, 2), (10, 1))):
        make_run(
            place / str(n), methods=methods, memory=memory, seed=seed, shift=seed, names=names, thumbnail=thumbnail
        )
    path = place / "report.html"
    path.write_text(write_page(compare(read_runs([place]))), encoding="utf-8")
    return path


def opened(browser, path, **options):
    """The page in a tab that keeps what goes wrong: messages, errors, requests."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: None if _own(request.url, path) else troubles.append(request.url[:200]))
    page.goto(path.as_uri())
    return SimpleNamespace(page=page, troubles=troubles, close=context.close)


def _own(url, path):
    return url == path.as_uri() or url.startswith("data:")


@pytest.fixture
def tab(browser, page_file):
    tab = opened(browser, page_file)
    yield tab
    assert not tab.troubles
    tab.close()


def lines_in(page, place):
    return page.locator(f"#{place} path.line").count()


def test_every_section_has_its_figure(tab):
    for place in ("accuracy-chart", "past-chart", "new-chart", "errors-chart", "errors-other-chart", "origins-chart",
                  "scores-raw-chart", "scores-chart", "weights-chart", "memory-chart"):  # fmt: skip
        assert tab.page.locator(f"#{place} svg[role=img]").count() == 1, place
        assert len(tab.page.locator(f"#{place} svg[role=img]").get_attribute("aria-label")) > 20
    assert tab.page.locator("#confusion-matrix canvas").count() == 1
    assert tab.page.locator("#timing-bars .track").count() == 2
    assert tab.page.locator(".chart[data-against] svg[role=img]").count() == 1


def test_methods_are_switched_on_and_off(tab):
    before = lines_in(tab.page, "accuracy-chart")
    button = tab.page.locator('#legend button[data-key="scail|herding"]')
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert tab.page.locator('#legend button[data-key="scail|herding"]').get_attribute("aria-pressed") == "false"
    assert lines_in(tab.page, "accuracy-chart") == lines_in(tab.page, "past-chart") == before - 1
    tab.page.keyboard.press("Enter")  # the focus has stayed on it
    assert lines_in(tab.page, "accuracy-chart") == before
    tab.page.get_by_role("button", name="None").click()
    assert lines_in(tab.page, "accuracy-chart") == 0
    tab.page.get_by_role("button", name="All", exact=True).click()
    assert lines_in(tab.page, "accuracy-chart") == 12


def test_top_1_and_top_5(tab):
    shape = lambda: tab.page.locator("#accuracy-chart path.line").first.get_attribute("d")  # noqa: E731
    five = shape()
    tab.page.locator(".switch span", has_text="top-1").click()
    assert shape() != five and "top-1" in tab.page.locator("#accuracy-chart").inner_text()


def test_a_number_shows_its_values_per_state(tab):
    cell = tab.page.locator("#results td[data-key]").first
    cell.hover()
    tip = tab.page.locator("#tip")
    assert tip.is_visible()
    words = tip.inner_text().split()
    assert words[0] == "FT," and [words[i] for i in range(words.index("top-1") + 1, len(words)) if words[i] in "012"]
    tab.page.mouse.move(5, 5)
    assert not tip.is_visible()


def test_tables_and_figures_work_with_the_keyboard(tab):
    tip = tab.page.locator("#tip")
    tab.page.locator("#results td[data-key]").first.focus()
    first = tip.inner_text()
    tab.page.keyboard.press("ArrowDown")
    assert tip.is_visible() and tip.inner_text() != first
    tab.page.keyboard.press("Escape")
    assert not tip.is_visible()
    for place in ("#accuracy-chart svg", "#errors-chart svg", "#confusion-matrix canvas"):
        tab.page.locator(place).focus()
        tab.page.keyboard.press("ArrowRight")
        one = tip.inner_text()
        tab.page.keyboard.press("ArrowRight")
        assert tip.is_visible() and tip.inner_text() != one, place
    tab.page.keyboard.press("Shift+Tab")
    assert not tip.is_visible()


def test_pointing_at_a_figure_shows_numbers(tab):
    tab.page.locator("#errors-chart svg").hover()
    assert "c(p) past, correct" in tab.page.locator("#tip").inner_text()
    tab.page.locator("#accuracy-chart svg").hover()
    assert "classes seen: 4" in tab.page.locator("#tip").inner_text()
    tab.page.locator("#confusion-matrix canvas").hover()
    assert "predicted:" in tab.page.locator("#tip").inner_text()


def test_sliders(tab):
    def pixels():
        return tab.page.locator("#confusion-matrix canvas").evaluate("canvas => canvas.toDataURL()")

    last = pixels()
    tab.page.locator("#confusion-state").fill("0")
    assert tab.page.locator("#confusion-output").inner_text() == "0 of 2" and pixels() != last
    assert tab.page.locator("#memory-classes .class").count() == 6
    tab.page.locator("#memory-state").fill("1")
    assert tab.page.locator("#memory-classes .class").count() == 4
    assert "20 images of 4 classes" in tab.page.locator("#memory-note").inner_text()
    tab.page.locator("#weights-state").focus()
    before = tab.page.locator("#weights-output").inner_text()
    tab.page.keyboard.press("ArrowLeft")
    assert tab.page.locator("#weights-output").inner_text() != before


def test_exemplars_that_were_let_go_are_faded(tab):
    tab.page.locator("#configuration").select_option(label="made: Z=3, B=10")
    first = tab.page.locator("#memory-classes .class").first
    assert first.inner_text().split()[-3:] == ["2", "of", "5"]
    assert first.locator(".thumbs i").count() == 2
    tab.page.locator("#memory-state").fill("0")
    assert first.locator(".thumbs i.gone").count() == 0


def test_configurations_runs_and_methods_are_chosen(tab):
    share = lambda: tab.page.locator("#errors-chart rect.segment").first.get_attribute("height")  # noqa: E731
    assert tab.page.locator("#run").locator("option").all_inner_texts() == ["seed 1", "seed 2"]
    assert "Mean over 2 runs" in tab.page.locator("#accuracy-note").inner_text()
    tab.page.locator("#errors-method").select_option(label="ScaIL, random")
    assert tab.page.locator("#errors-title").inner_text() == "ScaIL, random"
    assert share()
    tab.page.locator("#configuration").select_option(index=1)
    assert not tab.page.locator("#run").is_visible()
    assert tab.page.locator("#accuracy-note").inner_text() == ""


def test_numbers_of_a_figure(tab):
    details = tab.page.locator("#past-chart details.numbers")
    details.locator("summary").click()
    details.locator("tbody tr").first.wait_for()  # browsers tell that it was opened a little later
    assert details.locator("tbody tr").count() == 2
    assert details.locator("thead th").count() == 1 + lines_in(tab.page, "past-chart")


def test_a_class_named_like_a_tag_stays_text(tab):
    assert tab.page.evaluate("window.broken") is None
    assert EVIL in tab.page.locator("#memory-classes").inner_text()
    tab.page.locator("#confusion-matrix canvas").focus()
    tab.page.keyboard.press("ArrowUp")
    assert EVIL in tab.page.locator("#tip").inner_text()


def contrast(page, selector, of="color"):
    """The least contrast of these elements against what is behind them."""
    return page.locator(selector).evaluate_all(
        """(elements, of) => {
          const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
          const linear = (v) => v <= 10 ? v / 3294 : ((v / 255 + .055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
          const behind = (e) => {
            const colour = rgb(getComputedStyle(e).backgroundColor);
            return colour[3] === 0 ? behind(e.parentElement) : colour;
          };
          return Math.min(...elements.map((e) => {
            const [a, b] = [light(rgb(getComputedStyle(e)[of])), light(behind(e))];
            return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
          }));
        }""",
        of,
    )


TEXTS = (
    "h1", ".lead", ".hint", ".kicker", "dt", "dd small", "caption", "#results td", "td strong", "thead th", "nav a",
    ".legend button span", "tr.reference td", "summary", ".keys span", "footer", "#theme", "#tip",
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, page_file, scheme):
    tab = opened(browser, page_file, color_scheme=scheme)
    tab.page.get_by_role("button", name="All", exact=True).click()
    tab.page.locator("#results td[data-key]").first.hover()
    for text in TEXTS:
        assert contrast(tab.page, text) >= 4.5, text
    assert contrast(tab.page, ".chart text", "fill") >= 4.5
    assert contrast(tab.page, ".chart path.line", "stroke") >= 3
    assert not tab.troubles
    tab.close()


def test_dark_and_light(browser, page_file):
    background = "getComputedStyle(document.body).backgroundColor"
    shown = {}
    for scheme in ("light", "dark"):
        tab = opened(browser, page_file, color_scheme=scheme)
        shown[scheme] = tab.page.evaluate(background)
        canvas = tab.page.locator("#confusion-matrix canvas").evaluate("canvas => canvas.toDataURL()")
        tab.page.locator("#confusion-state").fill("1")
        tab.page.locator("#theme").click()
        assert tab.page.evaluate(background) != shown[scheme]
        assert tab.page.locator("#confusion-output").inner_text() == "1 of 2"  # nothing else is changed
        tab.page.locator("#confusion-state").fill("2")
        assert tab.page.locator("#confusion-matrix canvas").evaluate("canvas => canvas.toDataURL()") != canvas
        tab.page.locator("#theme").click()
        assert tab.page.evaluate(background) == shown[scheme]
        assert not tab.troubles
        tab.close()
    assert shown["light"] != shown["dark"]


@pytest.mark.parametrize("width", [320, 390, 768])
def test_a_narrow_screen_needs_no_sideways_scrolling(browser, page_file, width):
    tab = opened(browser, page_file, viewport={"width": width, "height": 800}, has_touch=True)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    for place in ("#results td[data-key] >> nth=3", "#errors-chart svg", "#confusion-matrix canvas"):
        tab.page.locator(place).tap()
        box = tab.page.locator("#tip").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    tab.page.get_by_role("button", name="All", exact=True).tap()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not tab.troubles
    tab.close()


def test_labels_under_an_axis_do_not_touch(browser, tmp_path, thumbnail):
    make_run(tmp_path / "run", sizes=(2,) * 50, thumbnail=thumbnail, memory=200)
    (tmp_path / "report.html").write_text(write_page(compare(read_runs([tmp_path]))), encoding="utf-8")
    for width in (390, 1280):
        tab = opened(browser, tmp_path / "report.html", viewport={"width": width, "height": 800})
        for place in ("accuracy-chart", "errors-chart", "weights-chart"):
            boxes = tab.page.locator(f"#{place} svg text").evaluate_all(
                "texts => texts.map((t) => t.getBoundingClientRect()).map((b) => [b.left, b.top, b.right, b.bottom])"
            )
            for n, a in enumerate(boxes):
                for b in boxes[:n]:
                    apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] + 3 or b[3] <= a[1] + 3
                    assert apart, (place, width, a, b)
        tab.close()


def test_it_prints_in_light_colours_without_controls(tab):
    tab.page.emulate_media(media="print", color_scheme="dark")
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for place in ("#theme", "#errors .controls", '#legend [aria-pressed="false"]'):
        assert not tab.page.locator(place).first.is_visible()
    assert tab.page.locator('#legend [aria-pressed="true"]').first.is_visible()  # says which line is which
    assert tab.page.locator("#accuracy-chart svg").is_visible()
    assert tab.page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(
    "options",
    [{"methods": ()}, {"memory": 0}, {"sizes": (1, 1)}, {"methods": ("ft_wa",), "full": False}, {"old": True}],
    ids=["Full alone", "no memory", "two classes", "without FT", "an old run"],
)
def test_unusual_runs_have_a_page_too(browser, tmp_path, options):
    old = options.pop("old", False)
    run = make_run(tmp_path / "run", **options)
    for name in ("memory.jsonl", "timing.jsonl", "weights.jsonl") if old else ():
        (run / name).unlink()
    (tmp_path / "report.html").write_text(write_page(compare(read_runs([tmp_path]))), encoding="utf-8")
    tab = opened(browser, tmp_path / "report.html")
    assert tab.page.locator("#provenance pre").first.is_visible()
    assert ("did not record" in tab.page.locator("#memory").inner_text()) == old
    assert not tab.troubles
    tab.close()


def test_without_scripts_the_tables_are_there(browser, page_file):
    tab = opened(browser, page_file, java_script_enabled=False)
    assert tab.page.locator("#results table").first.is_visible() and not tab.page.locator("#accuracy").is_visible()
    assert "need JavaScript" in tab.page.locator(".noscript").inner_text()
    tab.close()


@pytest.mark.soak
def test_a_thousand_classes_and_fifty_states_open_quickly(browser, tmp_path, thumbnail):
    big = io.BytesIO()
    Image.frombytes("RGB", (64, 640), os.urandom(64 * 640 * 3)).save(big, "PNG")
    methods = [f"method_{n}" for n in range(12)]
    make_run(
        tmp_path / "run", sizes=(20,) * 50, methods=["ft", "scail", *methods], memory=5000, features=512,
        thumbnail=big.getvalue(), confusions=3,
    )  # fmt: skip
    path = tmp_path / "report.html"
    path.write_text(write_page(compare(read_runs([tmp_path]))), encoding="utf-8")
    assert path.stat().st_size < 10e6
    took = []
    for _ in range(3):  # the machine may be busy with something else
        started = time.perf_counter()
        tab = opened(browser, path)
        tab.page.locator("#timing-bars .track").first.wait_for()
        took.append(time.perf_counter() - started)
    assert min(took) < 3
    assert "Too many classes to show each" in tab.page.locator("#confusion-note").inner_text()
    tab.page.locator("#confusion-matrix canvas").hover()
    assert "classes of state" in tab.page.locator("#tip").inner_text()
    assert not tab.troubles
    tab.close()
