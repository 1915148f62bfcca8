"""The quick sort behind ScaIL, against torch's own."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scail.heads.sorting import empty_ranks, few_rows, sort_descending, write_ranks


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.floats(-3, 3, width=16)))
def test_the_quick_sort_is_the_stable_sort_of_torch(values):
    rows = torch.from_numpy(values)
    expected = rows.sort(dim=1, descending=True, stable=True)
    found, order = sort_descending(rows)
    assert torch.equal(found, expected.values) and torch.equal(order, expected.indices)
    assert torch.equal(sort_descending(rows.double())[1], expected.indices)


@settings(max_examples=30, deadline=None)
@given(arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.floats(-3, 3, width=16)))
def test_a_rank_says_where_the_value_is_in_the_sorted_row(values):
    rows = torch.from_numpy(values)
    found, order = sort_descending(rows)
    ranks = empty_ranks(rows)
    write_ranks(ranks, order)
    assert torch.equal(found.gather(1, ranks.long()), rows)


def test_few_rows_are_views_of_all_rows_in_their_order():
    wide, narrow = torch.zeros(5, 2**16), torch.arange(5)
    chunks = list(few_rows(wide, narrow))
    assert [of.tolist() for _, of in chunks] == [[0, 1], [2, 3], [4]]
    for rows, of in chunks:
        rows += of[:, None]
    assert torch.equal(wide[:, 0], narrow.float())
    assert len(list(few_rows(torch.zeros(3, 0)))) == 1
    assert empty_ranks(torch.zeros(1, 2**15 - 1)).dtype == torch.int16
    assert empty_ranks(torch.zeros(1, 2**15)).dtype == torch.int32
