import csv
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scail.evaluation import (
    ERROR_KINDS,
    confusion_matrix,
    error_counts,
    gap_to_full,
    incremental_mean,
    past_errors_by_origin,
    ranked_weights,
    top_k_accuracy,
    true_class_scores,
)


def read_table(name):
    with (Path(__file__).parent / "data" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


PUBLISHED = {row["method"]: float(row["g_il"]) for row in read_table("table1_gil.csv")}


@pytest.mark.parametrize("method", PUBLISHED)
def test_the_published_gap_follows_from_the_published_accuracies(method):
    rows = read_table("table1_top5.csv")
    full = {row["dataset"]: float(row["top5"]) for row in rows if row["method"] == "Full"}
    mine = [row for row in rows if row["method"] == method]
    assert len(mine) == 20
    gap = gap_to_full([float(row["top5"]) for row in mine], [full[row["dataset"]] for row in mine])
    assert round(gap, 2) == PUBLISHED[method]


def test_one_full_serves_all_configurations():
    assert gap_to_full([80, 70], 90) == pytest.approx((-10 / 10 - 20 / 10) / 2)
    assert gap_to_full([80, 70], [90, 90]) == gap_to_full([80, 70], 90)
    assert gap_to_full([90.0], 90.0) == 0


@pytest.mark.parametrize(
    ("accuracies", "full", "message"),
    [
        ([80.0, 70.0], [90.0], "2 accuracies and 1 values of Full"),
        ([80.0], [100.0], "Full is 100 %"),
        ([80.0], 100, "Full is 100 %"),
        ([800.0], 90.0, "expected percent"),
        ([-1.0], 90.0, "expected percent"),
        ([80.0], -90.0, "expected percent"),
        ([math.nan], 90.0, "expected percent"),
        ([], 90.0, "at least one"),
        ([], [], "at least one"),
    ],
)
def test_a_gap_that_cannot_be_is_an_error(accuracies, full, message):
    with pytest.raises(ValueError, match=message):
        gap_to_full(accuracies, full)


def test_the_headline_leaves_state_0_out():
    assert incremental_mean([100.0, 40.0, 20.0]) == 30
    assert incremental_mean([100.0, 40.0]) == 40
    with pytest.raises(ValueError, match=r"1 state\(s\)"):
        incremental_mean([100.0])


def naive_top_k(scores, labels, k):
    hits = 0
    for row, label in zip(scores, labels, strict=True):
        ranked = sorted(range(len(row)), key=lambda c: -row[c])
        hits += label in [c for c in ranked[:k] if row[c] > -math.inf]
    return 100 * hits / len(labels)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 7), st.integers(0, 2**32))
def test_top_k_equals_a_naive_loop(num_images, num_classes, k, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(num_images, num_classes, generator=generator)
    scores[torch.rand(scores.shape, generator=generator) < 0.3] = -math.inf
    labels = torch.randint(num_classes, (num_images,), generator=generator)
    expected = naive_top_k(scores.tolist(), labels.tolist(), k)
    assert top_k_accuracy(scores, labels, k) == pytest.approx(expected)


def test_an_excluded_class_is_never_predicted():
    scores = torch.tensor([[1.0, -math.inf, -math.inf], [1.0, -5.0, -math.inf]])
    assert top_k_accuracy(scores, torch.tensor([1, 1]), k=3) == 50


def test_fewer_than_k_classes_count_all():
    assert top_k_accuracy(torch.tensor([[3.0, 1.0], [3.0, 1.0]]), torch.tensor([0, 1]), k=5) == 100
    assert top_k_accuracy(torch.tensor([[3.0, 1.0], [3.0, 1.0]]), torch.tensor([0, 1]), k=1) == 50


def test_errors_by_hand():
    # classes 0..3 are past (0, 1 from state 0; 2 from state 1; 3 from state 2), 4 and 5 are new in state 3
    first_state = torch.tensor([0, 0, 1, 2, 3, 3])
    labels, predicted = torch.tensor([[0, 0], [0, 1], [1, 2], [2, 3], [3, 4], [3, 5], [4, 4], [4, 5], [5, 0], [5, 2]]).T
    counts = error_counts(predicted, labels, past=4)
    assert counts == {"c(p)": 1, "e(p,p)": 3, "e(p,n)": 2, "c(n)": 1, "e(n,n)": 1, "e(n,p)": 2}
    # taken for the past classes 1 (state 0), 2 (state 1) and 3 (state 2)
    assert past_errors_by_origin(predicted, labels, first_state) == [1, 1, 1]
    matrix = confusion_matrix(predicted, labels, 6)
    assert matrix.nonzero().tolist() == sorted(torch.stack([labels, predicted], 1).tolist())
    assert matrix[5, 0] == 1 and matrix[0, 5] == 0  # rows are the truth


@st.composite
def predictions(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    first_state = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    label = st.integers(0, len(first_state) - 1)
    pairs = draw(st.lists(st.tuples(label, label), max_size=40))
    labels, predicted = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return predicted, labels, first_state


@settings(max_examples=60, deadline=None)
@given(predictions())
def test_error_counts_add_up(drawn):
    predicted, labels, first_state = drawn
    num_classes, state = len(first_state), int(first_state[-1])
    past = int((first_state < state).sum())
    counts = error_counts(predicted, labels, past)
    assert tuple(counts) == ERROR_KINDS
    assert sum(counts.values()) == len(labels)
    assert counts["c(p)"] + counts["e(p,p)"] + counts["e(p,n)"] == int((labels < past).sum())

    by_origin = past_errors_by_origin(predicted, labels, first_state)
    assert len(by_origin) == state and sum(by_origin) == counts["e(p,p)"]

    matrix = confusion_matrix(predicted, labels, num_classes)
    assert matrix.shape == (num_classes, num_classes)
    assert matrix.sum(1).tolist() == torch.bincount(labels, minlength=num_classes).tolist()
    assert matrix.sum(0).tolist() == torch.bincount(predicted, minlength=num_classes).tolist()
    assert matrix.trace() == counts["c(p)"] + counts["c(n)"]


def test_true_class_scores_are_means_over_past_and_new_images():
    scores = torch.tensor([[1.0, 9.0, 9.0], [3.0, 9.0, 9.0], [9.0, 9.0, -4.0]])
    assert true_class_scores(scores, torch.tensor([0, 0, 2]), past=2) == {"past": 2.0, "new": -4.0}
    assert true_class_scores(scores, torch.tensor([0, 0, 2]), past=0) == {"past": None, "new": 0.0}


def test_ranked_weights_are_sorted_magnitudes_averaged_over_classes():
    weight = torch.tensor([[1.0, -2.0], [5.0, 0.0], [-1.0, 6.0], [4.0, -3.0]])
    initial = torch.tensor([[8.0, -2.0], [0.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    # past now: (2, 1) and (5, 0); new: (6, 1) and (4, 3); past initially: (8, 2) and (4, 0)
    expected = {"new": [5.0, 2.0], "past": [3.5, 0.5], "past_initial": [6.0, 1.0]}
    assert ranked_weights(weight, initial, past=2) == expected
    assert set(ranked_weights(weight, initial, past=0)) == {"new"}
