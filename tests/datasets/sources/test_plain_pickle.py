"""Pickles without pickle: what CIFAR's files hold comes back; whatever else one asks for is an error."""

from __future__ import annotations

import io
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from scail.datasets.sources.mat_file import read_table
from scail.datasets.sources.plain_pickle import NotPlain, read_plain

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text()
RECORDS = st.dictionaries(
    st.binary(max_size=9) | st.text(st.characters(codec="utf-8"), max_size=9),
    st.recursive(PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner), max_leaves=8)
    | arrays(np.uint8, array_shapes(max_dims=3, max_side=5)),
    max_size=6,
)


@pytest.mark.parametrize("protocol", [3, 4])
@settings(max_examples=30, deadline=None)
@given(value=RECORDS)
def test_values_and_arrays_come_back(protocol, value):
    found = read_plain(pickle.dumps(value, protocol))
    assert found.keys() == value.keys()
    for name, one in value.items():
        assert np.array_equal(found[name], one) if isinstance(one, np.ndarray) else found[name] == one


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_whatever_is_no_such_pickle_is_a_clear_error(data):
    with pytest.raises(NotPlain) as error:
        read_plain(data)
    assert str(error.value) and "\n" not in str(error.value)


class Harmful:
    """Would run something."""

    def __reduce__(self):
        return print, ("was run",)


@pytest.mark.parametrize("value", [{"a": Harmful()}, {"a": np.arange(3.0)}, {"a": {1}}, {1: 2}, [1], {"a": object()}])
def test_what_asks_for_more_is_refused(value, capsys):
    with pytest.raises(NotPlain):
        read_plain(pickle.dumps(value))
    assert not capsys.readouterr().out


def test_a_pickle_that_promises_more_than_it_has_takes_no_memory():
    for head in (b"B" + struct.pack("<I", 2**31 - 1), b"\x8e" + struct.pack("<Q", 2**62), b"T" + b"\xff\xff\xff\x7f"):
        with pytest.raises(NotPlain):
            read_plain(b"\x80\x04" + head + b"abc")


CELLS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=9)


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 2**31), CELLS, st.floats(-1e9, 1e9)), min_size=1, max_size=5),
       packed=st.booleans())  # fmt: skip
def test_tables_of_matlab_come_back(rows, packed):
    from scipy.io import savemat

    made, kinds = io.BytesIO(), [("id", "O"), ("name", "O"), ("share", "O")]
    savemat(made, {"x": np.eye(2), "table": np.array(rows, dtype=kinds).reshape(-1, 1)}, do_compression=packed)
    found = read_table(made.getvalue(), "table", 10**6)
    assert [(row["id"], row["name"], row["share"]) for row in found] == rows


@pytest.mark.parametrize("content", [b"", b"MATLAB", bytes(126) + b"IM", bytes(126) + b"MI" + bytes(3)])
def test_what_is_no_table_of_matlab(content):
    with pytest.raises(ValueError):
        read_table(content, "table", 1000)
