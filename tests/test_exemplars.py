import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scail.exemplars import Memory, herding_order, places, random_order


def test_places_are_the_floor_and_the_remainder_goes_to_the_earliest():
    assert places(11, 4) == [3, 3, 3, 2]
    assert places(8, 4) == [2, 2, 2, 2]
    assert places(2, 3) == [1, 1, 0]
    assert places(0, 2) == [0, 0]


@given(st.integers(0, 500), st.integers(1, 60))
def test_places_use_the_budget_up_and_never_exceed_it(budget, num_classes):
    given_out = places(budget, num_classes)
    assert sum(given_out) == budget
    assert set(given_out) <= {budget // num_classes, budget // num_classes + 1}
    assert given_out == sorted(given_out, reverse=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=5))
def test_memory_never_exceeds_its_budget_and_every_class_keeps_a_prefix(budget, states):
    memory, orders = Memory(budget), []
    for state, sizes in enumerate(states):
        # Rows that tell class and image apart, in an order that is not sorted.
        new = [torch.arange(size).flip(0) + 1000 * state + 100 * i for i, size in enumerate(sizes)]
        orders += new
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer places than classes
            memory = memory.add(new)
        assert len(memory) == len(memory.indices) == len(memory.labels) <= budget
        for kept, order, allowed in zip(memory.exemplars, orders, places(budget, len(orders)), strict=True):
            # A prefix of the class's own order, although the memory no longer saw that order; and as long as allowed:
            # with enough images in every class the memory is therefore full.
            assert kept.tolist() == order[:allowed].tolist()
        if all(len(order) >= budget for order in orders):
            assert len(memory) == budget


def test_indices_and_labels_go_class_by_class():
    memory = Memory(5).add([torch.tensor([7, 3, 9]), torch.tensor([4])]).add([torch.tensor([1, 2])])
    # three classes: 2, 2 and 1 places; class 1 has one image only and its other place stays empty
    assert memory.indices.tolist() == [7, 3, 4, 1]
    assert memory.labels.tolist() == [0, 0, 1, 2]


def test_a_memory_of_nothing_is_empty():
    memory = Memory(0).add([torch.tensor([1, 2])])
    assert len(memory) == 0 and memory.indices.tolist() == [] and memory.labels.tolist() == []
    assert memory.indices.dtype == memory.labels.dtype == torch.int64


def test_fewer_places_than_classes_keep_the_earliest():
    memory = Memory(2).add([torch.tensor([5, 6]), torch.tensor([7]), torch.tensor([8])])
    assert memory.indices.tolist() == [5, 7]


def test_a_negative_budget_is_an_error():
    with pytest.raises(ValueError, match="memory is -1"):
        Memory(-1)


def naive_herding(features, count):
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    mean, chosen = unit.mean(0), []
    while len(chosen) < min(count, len(unit)):
        left = [i for i in range(len(unit)) if i not in chosen]
        chosen.append(min(left, key=lambda i: np.linalg.norm(mean - unit[[*chosen, i]].mean(0))))
    return chosen


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 25), st.integers(2, 6), st.integers(0, 30), st.integers(0, 2**32))
def test_herding_equals_a_naive_loop_and_takes_no_image_twice(num_images, feature_size, count, seed):
    # From three images on: two are always equally far from their mean, and rounding would decide.
    features = torch.randn(num_images, feature_size, generator=torch.Generator().manual_seed(seed)).double() + 0.5
    order = herding_order(features, count)
    assert order.tolist() == naive_herding(features.numpy(), count)
    assert len(set(order.tolist())) == len(order) == min(count, num_images)
    assert order.dtype == torch.int64


def test_herding_by_hand():
    # unit features (1, 0), (0, 1), (0.8, 0.6) [given as (4, 3)]; their mean is (0.6, 0.5333)
    # first: squared distances 0.444, 0.578, 0.044: image 2. Second, with image 0: mean (0.9, 0.3), 0.144; with
    # image 1: mean (0.4, 0.8), 0.111: image 1.
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 3.0]])
    assert herding_order(features, 3).tolist() == [2, 1, 0]


def test_herding_of_one_image_or_of_none():
    assert herding_order(torch.ones(1, 3), 5).tolist() == [0]
    assert herding_order(torch.ones(4, 3), 0).tolist() == []


def test_herding_takes_equal_images_once_each():
    assert sorted(herding_order(torch.ones(4, 3), 9).tolist()) == [0, 1, 2, 3]


def test_herding_leaves_the_features_alone():
    features = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    before = features.clone()
    herding_order(features, 2)
    assert torch.equal(features, before)


def test_a_random_order_is_fixed_by_its_generator_and_a_smaller_count_is_a_prefix():
    features = torch.zeros(30, 2)
    whole = random_order(features, 99, torch.Generator().manual_seed(1))
    assert sorted(whole.tolist()) == list(range(30))
    assert random_order(features, 7, torch.Generator().manual_seed(1)).tolist() == whole[:7].tolist()
    assert random_order(features, 99, torch.Generator().manual_seed(2)).tolist() != whole.tolist()


def test_a_class_can_get_other_exemplars_within_its_places():
    memory = Memory(7).add([torch.arange(5), torch.arange(10, 15), torch.arange(20, 21)])
    assert [len(rows) for rows in memory.exemplars] == [3, 2, 1]
    again = memory.reorder({1: torch.arange(30, 40), 2: torch.arange(40, 50)})
    assert [rows.tolist() for rows in again.exemplars] == [[0, 1, 2], [30, 31], [40, 41]]
    assert memory.reorder({}) is memory
