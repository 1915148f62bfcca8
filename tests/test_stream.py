import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scail.datasets import Dataset, Split
from scail.stream import class_order, split_into_states, state_sizes

NAMES = tuple("abcdefg")


def make_dataset(train_labels, test_labels, names=NAMES):
    """Image i of a split has the grey value i: a row is known by its pixel."""

    def split(labels):
        images = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None]
        return Split(images, torch.tensor(labels))

    return Dataset("letters", tuple(names), split(train_labels), split(test_labels))


def test_icarls_order_is_the_published_one():
    # The beginning of the list that the literature prints for CIFAR-100.
    order = class_order("icarl", [str(c) for c in range(100)], seed=5)
    assert order[:10] == (68, 56, 78, 8, 23, 84, 90, 65, 74, 76)
    expected = np.arange(100)
    np.random.RandomState(1993).shuffle(expected)
    assert list(order) == expected.tolist()


def test_icarls_order_of_ilsvrc_reads_the_shuffle_as_positions():
    # The shuffle of five is 0 2 3 4 1: a arrives first, b third, c fourth, d last, e second.
    assert class_order("icarl", "abcde", seed=0) == (0, 2, 3, 4, 1)
    assert class_order("icarl", "abcde", seed=0, icarl="positions") == (0, 4, 1, 2, 3)
    shuffled = np.arange(1000)
    np.random.RandomState(1993).shuffle(shuffled)
    order = class_order("icarl", [str(c) for c in range(1000)], seed=0, icarl="positions")
    assert all(order.index(c - 1) == shuffled[c - 1] for c in range(1, 1001))  # devkit id c arrives m[c - 1]-th


@pytest.mark.parametrize("icarl", ["direct", "positions", "unknown"])
def test_other_orders_do_not_ask_how_icarls_is_read(icarl):
    for order in ("seed", "given", list("gfedcba")):
        assert class_order(order, NAMES, seed=3, icarl=icarl) == class_order(order, NAMES, seed=3)


def test_icarls_order_without_the_devkit_is_an_error():
    with pytest.raises(ValueError, match=r"needs the class ids of .* put ILSVRC2012_devkit_t12.tar.gz .*--order seed"):
        class_order("icarl", NAMES, seed=0, icarl="unknown")


def test_a_seeds_order_is_its_own_and_leaves_numpys_global_state_alone():
    before = np.random.get_state()[1].tolist()
    orders = {seed: class_order("seed", NAMES, seed) for seed in range(5)}
    assert all(sorted(order) == list(range(7)) for order in orders.values())
    assert len(set(orders.values())) == 5
    assert class_order("seed", NAMES, 3) == orders[3]
    assert np.random.get_state()[1].tolist() == before


def test_given_and_named_orders():
    assert class_order("given", NAMES, seed=3) == (0, 1, 2, 3, 4, 5, 6)
    assert class_order(list("gabcdef"), NAMES, seed=3) == (6, 0, 1, 2, 3, 4, 5)
    assert class_order(tuple("gabcdef"), NAMES, seed=3) == (6, 0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (list("abcdefz"), "unknown class 'z'"),
        (list("abcdefga"), "class 'a' is named twice"),
        (list("abcdef"), r"1 class\(es\) missing, the first is 'g'"),
        ("alphabetical", "'alphabetical': expected seed, icarl, given"),
    ],
)
def test_an_order_that_cannot_be_is_an_error(order, message):
    with pytest.raises(ValueError, match=message):
        class_order(order, NAMES, seed=0)


def test_state_sizes_equal_uneven_given_and_with_a_first_state():
    assert state_sizes(100, 10) == (10,) * 10
    assert state_sizes(10, 4) == (3, 3, 2, 2)
    assert state_sizes(7, 7) == (1,) * 7
    assert state_sizes(7, 1) == (7,)
    assert state_sizes(7, [4, 1, 2]) == (4, 1, 2)
    assert state_sizes(10, 4, first=5) == (5, 2, 2, 1)
    assert state_sizes(7, 2, first=1) == (1, 6)


@given(st.integers(1, 60), st.data())
def test_state_sizes_use_up_the_classes_and_differ_by_one_at_most(num_classes, data):
    states = data.draw(st.integers(1, num_classes))
    sizes = state_sizes(num_classes, states)
    assert len(sizes) == states and sum(sizes) == num_classes
    assert sizes[0] - sizes[-1] in (0, 1) and list(sizes) == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("states", "first", "message"),
    [
        (8, None, "8 states for 7 classes: expected 1 to 7 states"),
        (0, None, "0 states for 7 classes"),
        ([3, 3], None, "add up to 7"),
        ([7, 0], None, "positive numbers"),
        ([8, -1], None, "positive numbers"),
        ([], None, "add up to 7"),
        ([4, 3], 4, "give one or the other"),
        (3, 6, "leaves 1 for 2 more states"),
        (3, 0, "a first state of 0 classes"),
        (1, 7, "leaves 0 for 0 more states"),
    ],
)
def test_sizes_that_cannot_be_are_an_error(states, first, message):
    with pytest.raises(ValueError, match=message):
        state_sizes(7, states, first)


def test_labels_are_renumbered_by_arrival_and_rows_go_class_by_class():
    dataset = make_dataset([2, 0, 1, 2, 0, 2], [1, 2, 0, 1], names="abc")
    first, second = split_into_states(dataset, [2, 1], class_order=(2, 0, 1))
    # c arrives first and becomes 0, then a: 1, then b: 2
    assert (first.index, first.class_names, first.past_classes, first.num_classes) == (0, ("c", "a"), 0, 2)
    assert first.train_indices.tolist() == [0, 3, 5, 1, 4]
    assert first.train_labels.tolist() == [0, 0, 0, 1, 1]
    assert first.test_indices.tolist() == [1, 2]
    assert first.test_labels.tolist() == [0, 1]
    assert (second.index, second.class_names, second.past_classes, second.num_classes) == (1, ("b",), 2, 3)
    assert second.train_indices.tolist() == [2]
    assert second.train_labels.tolist() == [2]
    assert second.test_indices.tolist() == [0, 3]
    assert second.test_labels.tolist() == [2, 2]


@given(st.permutations(range(7)), st.integers(1, 7))
def test_every_image_arrives_once_with_the_name_of_its_class(order, num_states):
    labels = [0, 6, 3, 1, 2, 4, 5, 3, 3, 0, 6]
    dataset = make_dataset(labels, list(range(7)))
    states = split_into_states(dataset, num_states, order)
    arrived = [name for state in states for name in state.class_names]
    assert arrived == [NAMES[c] for c in order]
    for rows, split in (("train", dataset.train), ("test", dataset.test)):
        indices = torch.cat([getattr(state, f"{rows}_indices") for state in states])
        new_labels = torch.cat([getattr(state, f"{rows}_labels") for state in states])
        assert sorted(indices.tolist()) == list(range(len(split)))
        assert [arrived[n] for n in new_labels] == [NAMES[c] for c in split.labels[indices]]


@pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (0, 1, 3), (1, 2, 3), (0, 1, 2, 3)])
def test_an_order_that_is_not_one_of_all_classes_is_an_error(order):
    dataset = make_dataset([0, 1, 2], [0, 1, 2], names="abc")
    with pytest.raises(ValueError, match=r"each of 0\.\.2 exactly once"):
        split_into_states(dataset, 1, order)
