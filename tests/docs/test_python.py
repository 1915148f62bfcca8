"""The page on Python: its pieces run, one after the other, in a new folder."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from tests.docs.reading import blocks

pytestmark = pytest.mark.soak
PAGE = "docs/how-to/own-training-code.md"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """What the pieces have made, what they have printed, and where."""
    names: dict[str, Any] = {}
    pieces = [code for kind, code in blocks(PAGE) if kind == "python"]
    place = tmp_path_factory.mktemp("python")
    with contextlib.chdir(place), contextlib.redirect_stdout(io.StringIO()) as printed:
        for piece in pieces:
            exec(piece.replace('"full"))', '"full")).with_epochs(1)'), names)  # as short as can be
    return names, printed.getvalue(), place


def test_a_run_leaves_what_the_command_leaves(done):
    names, printed, place = done
    folder = place / "runs" / "digits"
    assert names["page"].resolve() == (folder / "report.html").resolve() or names["page"] == Path(
        "runs/digits/report.html"
    )
    assert (folder / "report.html").is_file()
    assert {"table.md", "summary.json", "figures", "tables"} <= {path.name for path in folder.iterdir()}
    assert "ScaIL herding" in printed


def test_heads_score_ones_own_features(done):
    names, _, _ = done
    scores = names["scores"]
    assert scores.shape == (7, 8)
    assert ((scores[:, :5] > -float("inf")).sum(1) == 3).all()  # of five past classes three are candidates
