"""Names from elsewhere on a terminal: they move no cursor, begin no line, and are no markup."""

from __future__ import annotations

import io
import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Table

from scail.cli.main import main
from scail.cli.shown import shown, shown_json
from scail.cli.terminal import Terminal


@given(st.text())
def test_nothing_that_is_shown_moves_a_cursor(text):
    assert not {unicodedata.category(one) for one in shown(text)} & {"Cc", "Cs", "Zl", "Zp"}
    assert shown(text) == text or any(not one.isprintable() for one in text)


@settings(max_examples=15, deadline=None)
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_comes_back_and_moves_none(value):
    text = shown_json(value)
    assert json.loads(text) == value and not {unicodedata.category(one) for one in text} & {"Cc", "Cs"}


@pytest.mark.parametrize("name", ["[/b]", "[bold]x", ":smile:", "a\x1b[2Jb", "a\nb", "\u202ecod.exe", "\udcff"])
def test_tables_show_names_as_they_are(name):
    out, table = io.StringIO(), Table("class", box=None)
    table.add_row(shown(name))
    console = Terminal(120)
    console.file = out
    console.print(table)
    console.print(shown(name))
    assert out.getvalue().count(shown(name)) == 2 and "\x1b" not in out.getvalue()


def test_a_file_that_is_named_like_a_line_of_ours(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["info", str(tmp_path / "x\x1b[2J\nscail: done")])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said and said.count("\n") == 1 and "x\\x1b[2J\\nscail: done" in said
