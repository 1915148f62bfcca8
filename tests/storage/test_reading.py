"""Files that nobody vouches for: plain, bounded, and JSON that everybody downstream can take."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from scail.storage.entry import DamagedEntry, StoreError
from scail.storage.reading import parsed, read_bounded, read_json, read_json_lines, read_text
from scail.storage.sealed import BrokenSeal, read_sealed
from scail.storage.store import Store
from scail.storage.tensor_head import read_tensor_file
from tests.storage.stored import entry, key

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(VALUES)
def test_json_comes_back(value):
    assert parsed(json.dumps(value)) == value == parsed(json.dumps(value, ensure_ascii=False).encode())


@settings(deadline=None)
@given(st.binary())
def test_whatever_is_no_json_is_a_clear_error(data):
    try:
        json.dumps(parsed(data), allow_nan=False).encode()
    except ValueError as error:
        assert str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 101 + "]" * 101, "NaN", "[Infinity]", "1e999",
        "9" * 6000, str(2**63), '"\\ud800"', b"\xff", "", "{", '{"a": 1,}',
    ],
)  # fmt: skip
def test_json_that_nobody_downstream_could_take(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    for read in (read_json, read_json_lines) if text else (read_json,):
        with pytest.raises(ValueError, match=r"a\.json") as error:
            read(tmp_path / "a.json")
        assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_json_is_never_deeper_than_who_goes_through_it():
    assert parsed("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)
    for text in ("[" * 101 + "]" * 101, '{"a":[' * 60 + "1" + "]}" * 60):
        with pytest.raises(ValueError, match="too many brackets within brackets"):
            parsed(text)


def test_files_are_plain_and_of_bounded_size(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        for read in (lambda path: read_bounded(path, 100), read_tensor_file):
            with pytest.raises(ValueError, match=f"{name}: not a plain file"):
                read(tmp_path / name)
    with pytest.raises(BrokenSeal, match="not a plain file"):
        read_sealed(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * 101)
    with pytest.raises(ValueError, match="long: 101 bytes, expected at most 100 bytes"):
        read_bounded(tmp_path / "long", 100)
    (tmp_path / "latin").write_bytes("caf\xe9".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin: not a text file in UTF-8 \(byte 3\)"):
        read_text(tmp_path / "latin", 100)


def test_a_file_of_tensors_is_held_against_its_head(tmp_path):
    import numpy as np

    path = tmp_path / "a.safetensors"
    path.write_bytes(data := save({"a": np.arange(5), "b": np.zeros((2, 3), np.float32)}))
    assert read_tensor_file(path) == data
    huge = {"a": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 2**40]}}
    head = json.dumps(huge).encode()
    for wrong in (b"", b"x", data[:-1], data + b"x", data[:20], len(head).to_bytes(8, "little") + head, b"\xff" * 50):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"not a (whole )?safetensors file"):
            read_tensor_file(path)


def test_a_sparse_mark_of_a_store_is_not_read_and_a_pipe_is_not_waited_for(store_dir):
    mark = store_dir / "store.json"
    Store(store_dir)
    os.truncate(mark, 3 * 10**9)
    with pytest.raises(StoreError, match=r"store.json: 2.79 GiB, expected at most 1 MiB; remove this file"):
        Store(store_dir)
    mark.unlink()
    os.mkfifo(mark)
    with pytest.raises(StoreError, match=r"store.json: not a plain file; remove this file"):
        Store(store_dir)


def test_a_sparse_state_is_not_read_and_a_pipe_is_not_waited_for(store_dir):
    store = Store(store_dir)
    store.save(entry())
    os.truncate(store_dir / "states" / key() / "tensors.safetensors", 3 * 2**30)
    with pytest.raises(DamagedEntry, match=r"not a whole safetensors file \(3 GiB"):
        store.load(key())
    store.save(entry())
    (store_dir / "states" / key() / "entry.json").unlink()
    os.mkfifo(store_dir / "states" / key() / "entry.json")
    with pytest.raises(DamagedEntry, match=r"entry\.json: not a plain file"):
        store.load(key())
    assert [item.facts for item in store.listing()] == [{}]
