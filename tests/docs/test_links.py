"""What documents link to, and what code and messages name of them, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "results" / "README.md"]
GENERATED = ("commands.md", "settings.md", "heads.md")
"""Pages that are made with the site."""
FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """What a link to a part of it can name."""
    titles = re.findall(r"^#+ (.+)$", FENCES.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCES.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = document if not name else document.parent / name
        assert place.exists() or name.endswith(GENERATED), target
        if anchor and place.exists() and not anchor.startswith("scail."):  # the others `make docs` checks
            assert anchor in anchors(place), target


def test_documents_that_code_and_messages_name_are_there():
    named = {}
    for folder in ("src", "tests", "benchmarks", "results"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".js", ".html", ".yaml") and path != Path(__file__):
                for found in re.findall(r"(?<!--out )\bdocs/[\w/-]+\.md", path.read_text(encoding="utf-8")):
                    named[found] = path
    assert len(named) > 5
    assert not {name: str(path) for name, path in named.items() if not (ROOT / name).is_file()}
