"""The tutorial on tables: its commands, in order, in a new folder."""

from __future__ import annotations

import contextlib
import io

import pytest

from tests.docs.reading import blocks, commands, run_line


@pytest.mark.soak
def test_every_command_runs_and_leaves_what_it_says(tmp_path):
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()) as printed:
        for kind, code in blocks("docs/start/table.md"):
            for words in commands(code) if kind == "sh" else ():
                run_line(words)
    assert all((tmp_path / "runs" / name / "report.html").is_file() for name in ("first", "more-memory", "compared"))
    assert "ScaIL" in printed.getvalue() and "memory of 28 images" in printed.getvalue()
