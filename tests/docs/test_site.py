"""What the site is made of: pages that are generated, and those that list what the code has."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

import scail
from scail.config import RECIPES, Experiment, settings_of
from tests.docs.reading import ROOT

PAGES = ROOT / "docs" / "reference" / "python"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def hook(name: str):
    """A module of docs/hooks."""
    pytest.importorskip("mkdocs", reason="the group docs is not installed")
    spec = importlib.util.spec_from_file_location(f"hooks_{name}", ROOT / "docs" / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_its_place_in_the_reference():
    named = set(re.findall(r"^::: scail\.(\w+)$", "\n".join(path.read_text() for path in PAGES.glob("*.md")), re.M))
    told = {"METHODS", "RECIPES"}  # tables
    generated = {"heads", "scale_past_weights"}
    assert named | told | generated == set(scail.__all__)


def test_every_method_has_one_card_with_a_formula_and_a_reference():
    cards = hook("cards")
    assert cards.card_places().keys() == scail.METHODS.keys()
    for page in {path.name for path in cards.CARDS.glob("*.md")}:
        for part in re.split(r"^(?=## )", (cards.CARDS / page).read_text(), flags=re.MULTILINE):
            if part.startswith("## ") and part.split()[1] in scail.METHODS:
                assert part.count("**Formula.**") == part.count("**Reference.**") == 1, part[:40]


def test_a_card_says_what_the_table_and_the_kept_numbers_say():
    cards = hook("cards")
    text = cards._with_facts(re.match(r"## (\w+)", "## scail"))
    assert text.startswith("## ScaIL {#scail}")
    assert "`initial_weight_CD`" in text and "`exemplar_features_ED`" not in text
    assert "| top-1 | 51.0±2.6: CIFAR-100, 40 classes" in text  # results/cifar100-pretrained
    assert "| `frozen`; schedules: " in cards._with_facts(re.match(r"## (\w+)", "## slda"))


def test_every_setting_and_schedule_stands_on_the_page_of_settings():
    page = "\n".join(hook("settings")._page())
    named = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    assert named >= settings_of(Experiment).keys() - {"own_content"}
    assert named >= {name.replace("_", "-") for name in RECIPES["quick"]("digits").recipe.schedules}
    assert "| `memory` | `--memory` | `2%` |" in page


@pytest.mark.soak
def test_the_site_builds_and_its_search_works_in_files(tmp_path):
    pytest.importorskip("mkdocs", reason="the group docs is not installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    subprocess.run(build, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "site" / "index.html").as_uri())
        page.click(".md-search__input")
        page.keyboard.type("strangeness")
        page.wait_for_selector(".md-search-result__item a:has-text('strangeness')")
        found = page.locator(".md-search-result__item a:has-text('strangeness')").first
        assert found.evaluate("a => a.href").startswith((tmp_path / "site").as_uri())
        assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)
        browser.close()
