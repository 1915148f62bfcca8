"""Pages of the site that are no files in docs/: the README is its first one, and the heads are those of the code."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from scail import heads

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}  # fmt: skip
_LINK = re.compile(r"\]\(([^)\s:]+)\)")
_HEADS = """# Heads

A head is a function of the [evidence](parts.md#scail.Evidence). It gives a [`LinearHead`](parts.md#scail.LinearHead).
What each one does, with its formula, stands on its [card](../methods/README.md).
"""


def on_files(files: Files, config: Any) -> None:
    """Take them in. What they link to is found from where they stand in the repository."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_LINK.sub(lambda found: _inside(found[1], ROOT), text)))
    functions = [getattr(heads, name) for name in heads.__all__ if name.islower() and name != "evidence_of"]
    lines = [_HEADS, *(f"::: {one.__module__}.{one.__name__}\n" for one in functions)]
    files.append(File.generated(config, "reference/python/heads.md", content="\n".join(lines)))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from docs/ to documents outside lead to their pages."""
    if page.file.generated_by:
        return markdown
    folder = Path(page.file.abs_src_path).parent
    return _LINK.sub(lambda found: _inside(found[1], folder, page.file.src_uri), markdown)


def _inside(target: str, folder: Path, page: str = "index.md") -> str:
    """A link of a document in this folder, as the page has it."""
    name, mark, anchor = target.partition("#")
    place = os.path.relpath(folder / name, ROOT) if name else ""
    to = OUTSIDE.get(place, place.removeprefix("docs/"))
    return f"]({os.path.relpath(to, Path(page).parent) if name else ''}{mark}{anchor})"
