"""The ways to say how large the memory is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scail.config.memory_size import MemorySize, memory_size


@pytest.mark.parametrize(
    ("asked", "images", "per_class"),
    [
        (2000, 2000, None),
        ("2000", 2000, None),
        ("0", 0, None),
        ("100%", 5000, None),
        ("0.5%", 25, None),
        ("1/3%", 16, None),
        ("20/class", 200, 20),
        ("0/class", 0, 0),
        ("3kB", 3, None),
        ("1.5 KiB", 1, None),
        ("1MB", 1000, None),
        ("1mib", 1048, None),
        ("0.001GB", 1000, None),
    ],
)
def test_every_way_of_saying_it(asked, images, per_class):
    assert memory_size(asked, 5000, 10, 1000) == MemorySize(images, per_class)


@pytest.mark.parametrize(
    "asked", ["", "%", "many", "2/", "1.5", "20 / class", "4MB/class", "1e3", "MB", "1..2MB", "1/0%"]
)
def test_what_is_none_is_an_error_that_says_what_would_be(asked):
    with pytest.raises(
        ValueError, match="expected a number of images, a share as 2%, images of each class as 20/class"
    ):
        memory_size(asked, 5000, 10, 1000)


@given(st.integers(0, 300), st.integers(1, 300))
def test_so_many_of_each_class_is_a_memory_that_grows(each, classes):
    size = memory_size(f"{each}/class", 10**6, classes, 1)
    assert size.after(classes) == size.images == each * classes
    assert size.after(0) == 0
    assert memory_size(size.asked, 10**6, classes, 1) == size
