"""What is written and read again is the same value, whatever it is."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from scail.datasets.listing import Listing, Part, read_manifest, write_manifest
from scail.datasets.sources.mnist import read_idx
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry
from scail.storage.store import Store
from tests.storage.test_reading import VALUES

KINDS = (np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_, np.float16)
SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
NUMBERS = st.sampled_from(KINDS).flatmap(
    lambda kind: arrays(kind, SHAPES, elements={"allow_nan": False, "allow_infinity": False} if "f" in kind().dtype.kind
                        else None)
)  # fmt: skip
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
QUICKLY = settings(max_examples=25, deadline=None)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("round")


@QUICKLY
@given(tensors=st.dictionaries(NAMES.filter(lambda name: name != "__metadata__"), NUMBERS, max_size=4), facts=VALUES)
def test_states_and_checkpoints_come_back(place, tensors, facts):
    made = Entry({name: torch.from_numpy(of) for name, of in tensors.items()}, {"made_from": {"a": facts}, "b": facts})
    store, checkpoint = Store(place / "store"), Checkpoint(place / "a.safetensors")
    store.save(made)
    checkpoint.save(made)
    for found in (store.load(made.key), checkpoint.load()):
        assert found is not None and found.facts == made.facts and found.tensors.keys() == made.tensors.keys()
        for name, tensor in made.tensors.items():
            assert found.tensors[name].dtype == tensor.dtype and torch.equal(found.tensors[name], tensor)


@QUICKLY
@given(arrays(np.uint8, array_shapes(min_dims=3, max_dims=3, max_side=6)))
def test_images_of_idx_come_back(place, images):
    head = bytes((0, 0, 8, 3)) + struct.pack(">3I", *images.shape)
    (place / "images").write_bytes(head + images.tobytes())
    assert np.array_equal(read_idx(place / "images", 3).numpy(), images)


FILES = NAMES.filter(lambda name: "/" not in name and name not in (".", "..") and "\\" not in name)


@QUICKLY
@given(
    st.lists(FILES, min_size=4, max_size=8, unique=True), st.lists(NAMES, min_size=2, max_size=2, unique=True), NAMES
)
def test_lists_of_images_come_back(place, files, classes, name):
    paths, half = [str(place / file) for file in files], len(files) // 2
    parts = [Part(of, [n % 2 for n in range(len(of))]) for of in (paths[:half], paths[half:])]
    made = Listing(name, tuple(classes), *parts, "by hand", notes=("a note\n",))
    write_manifest(made, place / "list.csv")
    assert read_manifest(place / "list.csv") == made
