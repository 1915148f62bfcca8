from __future__ import annotations

import pytest

from scail.cli.main import main
from scail.methods import METHODS


def listed(monkeypatch, capsys, columns: int | None) -> list[str]:
    """The lines of `scail methods`, to a terminal of so many columns, or to a pipe."""
    if columns is not None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        main(["methods"])
    return capsys.readouterr().out.splitlines()


def test_another_program_gets_a_line_for_each_method(monkeypatch, capsys):
    lines = listed(monkeypatch, capsys, None)
    by_name = {line.split()[0]: line for line in lines[1 : 1 + len(METHODS)]}
    assert [*by_name] == [*METHODS]
    assert all(METHODS[name].trainer_name in line and METHODS[name].summary in line for name, line in by_name.items())


@pytest.mark.parametrize(("columns", "label"), [(80, False), (140, True)])
def test_a_narrow_terminal_has_room_for_what_each_does(monkeypatch, capsys, columns, label):
    lines = listed(monkeypatch, capsys, columns)
    assert ("label" in lines[0]) == label
    assert max(map(len, lines[: 2 * len(METHODS)])) <= max(columns, 118)
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in METHODS)
