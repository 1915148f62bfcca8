"""YAML that nobody vouches for: bounded, whatever it names again."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scail.storage.plain_yaml import read_yaml

BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc \n:#-{}[]&*!|>'\"%@`,?\\"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc:", min_size=1), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_values_come_back(value):
    assert read_yaml(yaml.safe_dump(value), "a.yaml")[1] == value


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(codec="utf-8")) | st.text("[]{}&*:- \nab!'\"|>%", max_size=60))
def test_whatever_is_no_yaml_is_a_clear_error(text):
    try:
        read_yaml(text, "a.yaml")
    except ValueError as error:
        assert str(error).startswith("a.yaml") and "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "more than 20000 values, an alias counted as what it stands for"),
        ("&a [*a, *a]", "not YAML: "),
        ("[" * 5000, "lists within lists, more than 50 deep"),
        ("- 1\n" * 30_000, "more than 20000 values"),
        ("#" * 2_000_000, "2000000 characters, expected at most 1000000"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: [1\nb: 2", "line 2: not YAML"),
        ("when: 2020-99-99", "not YAML: month must be in 1..12"),
    ],
)
def test_what_would_never_end_or_run_something(text, said):
    begun = time.process_time()
    with pytest.raises(ValueError) as error:
        read_yaml(text, "a.yaml")
    assert str(error.value).startswith("a.yaml") and said in str(error.value) and "\n" not in str(error.value)
    assert time.process_time() - begun < 10
