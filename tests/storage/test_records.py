"""Types from JSON and YAML: what does not fit is named, shown and explained."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scail.config.recipes import Experiment
from scail.storage.records import UnknownKey, decode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@dataclass(frozen=True)
class Leg:
    length: float
    kind: Literal["wood", "steel"] = "wood"


@dataclass(frozen=True)
class Table:
    name: str
    legs: tuple[Leg, ...]
    seats: int | None = None
    folds: bool = False
    marks: list[int] = field(default_factory=list)


GOOD: dict[str, Any] = {"name": "oak", "legs": [{"length": 2}, {"length": 0.5, "kind": "steel"}], "marks": [1, 2]}


def test_a_record_becomes_a_dataclass():
    table = decode(Table, GOOD, "table")
    assert table == Table("oak", (Leg(2.0), Leg(0.5, "steel")), marks=[1, 2])
    assert isinstance(table.legs[0].length, float)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True), (int, 1.0), (int, "1"), (float, True), (float, "1"), (float, 10**400), (bool, 1), (bool, "true"),
        (str, 1), (str, None), (list, {}), (dict, []), (Literal["a", "b"], "c"), (int | None, "x"), (Leg, 3), (Path, 1),
        (tuple[int, ...], 3), (list[int], "ab"), (str | tuple[str, ...], 1), (type(None), 0),
    ],
)  # fmt: skip
def test_nothing_is_bent_to_fit(kind, value):
    with pytest.raises(ValueError, match=r"^it: .*: expected "):
        decode(kind, value, "it")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seats": "four"}, "table.seats: 'four': expected a whole number"),
        ({"legs": [{"length": None}]}, "table.legs.length: None: expected a number"),
        ({"legs": [{"length": 1, "kind": "tin"}]}, "table.legs.kind: 'tin': expected wood, steel"),
        ({"legs": [3]}, "table.legs: 3: expected a record"),
        ({"legs": {}}, "table.legs: {}: expected a list"),
        ({"legs": [{}]}, "table.legs: has no length"),
        ({"folds": 0}, "table.folds: 0: expected true or false"),
        ({"name": ["oak"]}, "table.name: ['oak']: expected a text"),
        ({"colour": "red"}, "table: unknown key 'colour'"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(change, text):
    with pytest.raises(ValueError) as error:
        decode(Table, GOOD | change, "table")
    assert str(error.value) == text
    assert isinstance(error.value, UnknownKey) == ("colour" in change)


def test_a_long_value_is_cut():
    with pytest.raises(ValueError) as error:
        decode(int, "x" * 10**6, "it")
    assert len(str(error.value)) < 120


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [(str, 10, "10"), (str | None, 0.5, "0.5"), (str | None, None, None), (int | str, 5, 5), (Path, "a", Path("a"))],
)
def test_leniently_a_number_stands_for_a_text(kind, value, expected):
    found = decode(kind, value, "it", lenient=True)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(("kind", "value"), [(str, True), (int, "1"), (int, True), (float, "1"), (str, [1])])
def test_leniency_ends_there(kind, value):
    with pytest.raises(ValueError, match="expected"):
        decode(kind, value, "it", lenient=True)


@given(JSON)
def test_whatever_is_given_it_is_a_table_or_a_clear_error(value):
    for kind in (Table, Experiment, tuple[int, ...] | None, dict | None, Literal["a"], float):
        try:
            decode(kind, value, "it")
        except ValueError as error:
            assert str(error).startswith("it")
