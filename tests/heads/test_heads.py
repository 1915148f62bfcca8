import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestCentroid
from torch.nn import functional as F

from scail import heads
from scail.config import HeadOptions
from scail.learner import Learned
from scail.methods import METHODS, choose_methods, head_of
from tests.heads.evidence import evidences, make_evidence

# Three classes, two features. Class 0 was new in state 0, class 1 in state 1; class 2 is new now, in state 2.
EXAMPLE = make_evidence(
    weight=[[0, 2], [-6, 8], [3, -4]],
    bias=[0.5, -0.5, 1.0],
    initial_weight=[[2, -4], [-1, 8], [3, -4]],
    initial_bias=[2.0, -0.25, 1.0],
    first_state=[0, 1, 2],
    exemplar_features=[[3, 4], [4, 3], [0, 5], [-2, 0]],
    exemplar_labels=[0, 0, 1, 2],
)
X = torch.tensor([[2.0, 1.0]])


def assert_head(head, weight, bias, scores_of_x):
    torch.testing.assert_close(head.weight_CD, torch.tensor(weight, dtype=torch.float32))
    torch.testing.assert_close(head.bias_C, torch.tensor(bias, dtype=torch.float32))
    torch.testing.assert_close(head.scores(X), torch.tensor([scores_of_x], dtype=torch.float32))


def test_ft_is_the_layer_as_it_is():
    # 0*2 + 2*1 + 0.5,  -6*2 + 8*1 - 0.5,  3*2 - 4*1 + 1
    assert_head(heads.ft(EXAMPLE), [[0, 2], [-6, 8], [3, -4]], [0.5, -0.5, 1.0], [2.5, -4.5, 3.0])


def test_ft_l2_divides_rows_by_their_length_and_drops_the_biases():
    # lengths 2, 10 and 5; scores 0*2 + 1*1,  -0.6*2 + 0.8*1,  0.6*2 - 0.8*1
    assert_head(heads.ft_l2(EXAMPLE), [[0, 1], [-0.6, 0.8], [0.6, -0.8]], [0, 0, 0], [1.0, -0.4, 0.4])


def test_ft_init_gives_past_classes_their_initial_rows_and_biases_back():
    # 2*2 - 4*1 + 2,  -1*2 + 8*1 - 0.25,  3*2 - 4*1 + 1
    assert_head(heads.ft_init(EXAMPLE), [[2, -4], [-1, 8], [3, -4]], [2.0, -0.25, 1.0], [2.0, 5.75, 3.0])


def test_ft_init_l2_does_both():
    # lengths sqrt(4 + 16), sqrt(1 + 64), 5; scores (4 - 4) / sqrt(20),  (-2 + 8) / sqrt(65),  0.4
    a, b = math.sqrt(20), math.sqrt(65)
    weight = [[2 / a, -4 / a], [-1 / b, 8 / b], [0.6, -0.8]]
    assert_head(heads.ft_init_l2(EXAMPLE), weight, [0, 0, 0], [0.0, 6 / b, 0.4])


def test_ft_nem_is_the_normalised_mean_of_normalised_exemplar_features():
    # class 0: (0.6, 0.8) and (0.8, 0.6), mean (0.7, 0.7), length 1: (r, r) with r = sqrt(1/2)
    # class 1: (0, 1); class 2: (-1, 0); and x = (2, 1) becomes (2, 1) / sqrt(5)
    r, s = math.sqrt(0.5), math.sqrt(5)
    assert_head(heads.ft_nem(EXAMPLE), [[r, r], [0, 1], [-1, 0]], [0, 0, 0], [3 * r / s, 1 / s, -2 / s])


def test_scail_scales_initial_rows_by_rank_and_initial_biases_by_their_means():
    # mu: state 0 (4, 2), state 1 (8, 1), state 2 (4, 3); factors: state 0 (4/4, 3/2), state 1 (4/8, 3/1)
    # class 0: |2| is rank 2, |-4| rank 1: (2 * 1.5, -4 * 1);  class 1: |-1| is rank 2, |8| rank 1: (-1 * 3, 8 * 0.5)
    # biases: means 2, 0.25 and 1: 2 * 1/2,  -0.25 * 1/0.25
    # scores: 3*2 - 4*1 + 1,  -3*2 + 4*1 - 1,  3*2 - 4*1 + 1
    assert_head(heads.scail(EXAMPLE), [[3, -4], [-3, 4], [3, -4]], [1.0, -1.0, 1.0], [3.0, -3.0, 3.0])


def test_scail_as_published_indexes_by_signed_weights_and_counts_classes_for_the_biases():
    # class 0: argsort of (2, -4), descending, is (0, 1): (2 * factor[0], -4 * factor[1]) = (2 * 1, -4 * 1.5)
    # class 1: argsort of (-1, 8), descending, is (1, 0): (-1 * factor[1], 8 * factor[0]) = (-1 * 3, 8 * 0.5)
    # biases: the layers have 1, 2 and 3 classes: 2 * 3/1,  -0.25 * 3/2
    # scores: 2*2 - 6*1 + 6,  -3*2 + 4*1 - 0.375,  3
    head = heads.scail(EXAMPLE, as_published=True)
    assert_head(head, [[2, -6], [-3, 4], [3, -4]], [6.0, -0.375, 1.0], [4.0, -2.375, 3.0])


def test_three_features_tell_a_rank_from_an_argsort():
    # With two features a permutation is its own inverse; with three it need not be.
    rows = [[1.0, 3.0, 2.0], [10.0, -30.0, 2.0]]
    evidence = make_evidence(rows, [0, 0], rows, [0, 0], first_state=[0, 1])
    # mu_0 = (3, 2, 1), mu_1 = (30, 10, 2): factor = (10, 5, 2)
    # ranks of (1, 3, 2) are (3, 1, 2): (1 * 2, 3 * 10, 2 * 5)
    assert heads.scail(evidence).weight_CD[0].tolist() == [2, 30, 10]
    # argsort of (1, 3, 2), descending, is (1, 2, 0): (1 * 5, 3 * 2, 2 * 10)
    assert heads.scail(evidence, as_published=True).weight_CD[0].tolist() == [5, 6, 20]


def test_scail_means_are_over_the_classes_of_a_state():
    # mu_0: sorted rows (4, 2) and (6, 0), mean (5, 1); mu_1 = (10, 3); factors (2, 3). Biases: means 2 and 6, factor 3.
    rows = [[2, -4], [6, 0], [-3, 10]]
    evidence = make_evidence(rows, [1, -3, 6], rows, [1, -3, 6], first_state=[0, 0, 1])
    head = heads.scail(evidence)
    assert head.weight_CD.tolist() == [[6, -8], [12, 0], [-3, 10]]
    assert head.bias_C.tolist() == [3, -9, 6]


def test_candidates_are_the_past_classes_with_the_highest_raw_scores_and_the_others_are_minus_infinity():
    # For (2, 2) FT says 4.5 and 3.5 of the past classes: class 0 stays, class 1 goes, although ScaIL's scores are
    # -1, 1 and -1: class 1 would have won, and so it would with a score of zero.
    # For (0, 1) FT says 2.5 and 7.5: class 1 stays. ScaIL: -4 + 1, 4 - 1, -4 + 1.
    scores = heads.scail(EXAMPLE, candidates=1).scores(torch.tensor([[2.0, 2.0], [0.0, 1.0]]))
    assert scores.tolist() == [[-1, -math.inf, -1], [-math.inf, 3, -3]]


@pytest.mark.parametrize("candidates", [None, 2, 10])
def test_candidates_none_or_as_many_as_past_classes_keep_all(candidates):
    scores = heads.scail(EXAMPLE, candidates=candidates).scores(torch.tensor([[2.0, 2.0]]))
    assert scores.tolist() == [[-1, 1, -1]]


def test_linear_scores_know_no_candidates():
    head = heads.scail(EXAMPLE, candidates=1)
    assert head.linear_scores(torch.tensor([[2.0, 2.0]])).tolist() == [[-1, 1, -1]]


def test_no_candidates_at_all_is_an_error():
    with pytest.raises(ValueError, match="candidates is 0"):
        heads.scail(EXAMPLE, candidates=0)


def test_a_mean_of_zero_gives_the_factor_one():
    # rank 2 of the new class is 0, and so is its bias: rank 1 has the factor 8/4, rank 2 and the bias stay.
    evidence = make_evidence([[0, 0], [8, 0]], [0, 0], [[2, -4], [8, 0]], [5, 0], first_state=[0, 1])
    head = heads.scail(evidence)
    assert head.weight_CD.tolist() == [[2, -8], [8, 0]]
    assert head.bias_C.tolist() == [5, 0]
    # the other way round: nothing to scale, and no division by zero
    evidence = make_evidence([[0, 0], [8, 2]], [0, 3], [[0, -4], [8, 2]], [0, 3], first_state=[0, 1])
    head = heads.scail(evidence)
    assert head.weight_CD.tolist() == [[0, -8], [8, 2]]
    assert head.bias_C.tolist() == [0, 3]


@pytest.mark.parametrize("head", [heads.ft_init, heads.scail, lambda e: heads.scail(e, as_published=True)])
def test_in_state_0_a_head_equals_ft(head):
    rows = [[1.0, -2.0], [0.5, 3.0]]
    evidence = make_evidence(rows, [1, -1], rows, [1, -1], first_state=[0, 0])
    features = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(head(evidence).scores(features), heads.ft(evidence).scores(features))


def test_nearest_mean_agrees_with_scikit_learn_and_never_predicts_a_class_without_exemplars():
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(20, 5, generator=generator)
    labels = torch.arange(20) % 4
    labels[labels == 2] = 4  # class 2 has no exemplars
    layer = torch.zeros(5, 5).tolist()
    evidence = make_evidence(layer, [0] * 5, layer, [0] * 5, [0] * 5, features.tolist(), labels.tolist())
    images = torch.randn(200, 5, generator=generator)

    nearest_mean = NearestCentroid().fit(F.normalize(features).numpy(), labels.numpy())
    nearest_mean.centroids_ /= np.linalg.norm(nearest_mean.centroids_, axis=1, keepdims=True)  # normalised again
    nearest = nearest_mean.predict(F.normalize(images).numpy())

    scores = heads.ft_nem(evidence).scores(images)
    assert scores.argmax(1).tolist() == nearest.tolist()
    assert set(nearest) == {0, 1, 3, 4}  # the comparison means something
    assert (scores[:, 2] == -math.inf).all()


def naive_scail(evidence):
    """Class by class and weight by weight, as the formulas are written."""
    weight, bias = evidence.weight_CD.double().clone(), evidence.bias_C.double().clone()
    rows, biases = evidence.initial_weight_CD.double(), evidence.initial_bias_C.double()
    first, k = evidence.first_state_C.tolist(), evidence.state

    def mu(state, rank):
        values = [sorted(rows[c].abs().tolist(), reverse=True)[rank] for c, s in enumerate(first) if s == state]
        return sum(values) / len(values)

    def bias_mean(state):
        values = [abs(biases[c].item()) for c, s in enumerate(first) if s == state]
        return sum(values) / len(values)

    def ratio(now, then):
        return now / then if now and then else 1

    for c, i in enumerate(first):
        if i < k:
            order = sorted(range(rows.shape[1]), key=lambda h: -abs(rows[c, h].item()))
            for h in range(rows.shape[1]):
                weight[c, h] = rows[c, h] * ratio(mu(k, order.index(h)), mu(i, order.index(h)))
            bias[c] = biases[c] * ratio(bias_mean(k), bias_mean(i))
    return weight.float(), bias.float()


@settings(max_examples=50, deadline=None)
@given(evidences())
def test_scail_equals_a_naive_loop_leaves_new_rows_alone_and_is_the_bare_equation(evidence):
    head = heads.scail(evidence)
    weight, bias = naive_scail(evidence)
    torch.testing.assert_close(head.weight_CD, weight)
    torch.testing.assert_close(head.bias_C, bias)
    for scaled in (head, heads.scail(evidence, as_published=True)):
        assert torch.equal(scaled.weight_CD[evidence.past :], evidence.weight_CD[evidence.past :])
        assert torch.equal(scaled.bias_C[evidence.past :], evidence.bias_C[evidence.past :])
    bare = heads.scale_past_weights(evidence.weight_CD, evidence.initial_weight_CD, evidence.first_state_C)
    assert torch.equal(bare, head.weight_CD)


@settings(max_examples=30, deadline=None)
@given(evidences(), st.data())
def test_equal_statistics_make_scail_the_identity_on_initial_rows(evidence, data):
    # Every row becomes the same magnitudes in another order, with other signs.
    shape = evidence.weight_CD.shape
    magnitudes = data.draw(st.lists(st.floats(0.1, 9), min_size=shape[1], max_size=shape[1]))
    rows = torch.tensor([data.draw(st.permutations(magnitudes)) for _ in range(shape[0])]) * torch.where(
        evidence.weight_CD < 0, -1.0, 1.0
    )
    biases = torch.where(evidence.bias_C < 0, -2.0, 2.0)
    equal = replace(evidence, weight_CD=rows, initial_weight_CD=rows, bias_C=biases, initial_bias_C=biases)
    head = heads.scail(equal)
    torch.testing.assert_close(head.weight_CD, rows)
    torch.testing.assert_close(head.bias_C, biases)


@settings(max_examples=30, deadline=None)
@given(evidences())
def test_rows_have_unit_length_after_l2(evidence):
    for head, before in ((heads.ft_l2, heads.ft), (heads.ft_init_l2, heads.ft_init)):
        unit, plain = head(evidence), before(evidence)
        lengths = plain.weight_CD.norm(dim=1)
        some = lengths > 0  # a row of zeros has no direction
        torch.testing.assert_close(unit.weight_CD[some].norm(dim=1), torch.ones(int(some.sum())))
        torch.testing.assert_close(unit.weight_CD * lengths[:, None], plain.weight_CD)
        assert not unit.bias_C.any()


CURRENT = np.array([[9.0, 9.0], [9.0, 9.0], [3.0, -4.0]])
INITIAL = np.array([[2.0, -4.0], [-1.0, 8.0], [3.0, -4.0]])
SCALED = [[3, -4], [-3, 4], [3, -4]]  # as in the worked example above


def test_scale_past_weights_gives_numpy_for_numpy_and_torch_for_torch():
    first = np.array([0, 1, 2])
    from_numpy = heads.scale_past_weights(CURRENT, INITIAL, first)
    assert isinstance(from_numpy, np.ndarray) and from_numpy.dtype == np.float64
    assert from_numpy.tolist() == SCALED
    from_torch = heads.scale_past_weights(*map(torch.from_numpy, (CURRENT, INITIAL, first)))
    assert isinstance(from_torch, torch.Tensor) and from_torch.dtype == torch.float64
    assert from_torch.tolist() == SCALED


def test_scale_past_weights_takes_gaps_in_state_numbers_and_classes_in_any_order():
    assert heads.scale_past_weights(CURRENT, INITIAL, np.array([3, 7, 20])).tolist() == SCALED
    assert heads.scale_past_weights(CURRENT, INITIAL, np.array([-1, 7, 20])).tolist() == SCALED
    mixed = heads.scale_past_weights(CURRENT[[2, 0, 1]], INITIAL[[2, 0, 1]], np.array([20, 3, 7]))
    assert mixed.tolist() == [SCALED[2], SCALED[0], SCALED[1]]


def test_scale_past_weights_leaves_its_arguments_alone():
    current, initial = CURRENT.copy(), INITIAL.copy()
    heads.scale_past_weights(current, initial, np.array([0, 1, 2]))[:] = 0
    assert (current == CURRENT).all() and (initial == INITIAL).all()


@pytest.mark.parametrize(
    ("current", "initial", "first_state", "message"),
    [
        (torch.from_numpy(CURRENT), INITIAL, np.array([0, 1, 2]), "all torch tensors or all NumPy"),
        (CURRENT, INITIAL, torch.tensor([0, 1, 2]), "all torch tensors or all NumPy"),
        (CURRENT, INITIAL[:2], np.array([0, 1, 2]), r"initial \(2, 2\)"),
        (CURRENT[0], INITIAL[0], np.array([0, 1]), r"current \(2,\)"),
        (CURRENT, INITIAL, np.array([0, 1]), "one whole number for each of 3 rows"),
        (CURRENT, INITIAL, np.array([[0, 1, 2]]), "one whole number for each of 3 rows"),
        (CURRENT, INITIAL, np.array([0.0, 1.0, 2.0]), "whole number"),
        (CURRENT[:0], INITIAL[:0], np.array([], dtype=int), "whole number"),
    ],
)
def test_scale_past_weights_says_what_is_wrong(current, initial, first_state, message):
    with pytest.raises(ValueError, match=message):
        heads.scale_past_weights(current, initial, first_state)


NEED_EXEMPLARS = {"ft_nem", "ft_bal", "icarl", "bic", "e2e", "ft_slda", "ft_ridge", "duet", "icarl_duet", "er", "gdumb"}
NEED_EXEMPLARS |= {"lucir", "lucir_mc", "wa", "podnet", "der", "der_pruned"}


def test_all_methods_are_chosen_but_those_that_need_the_exemplars_that_are_not_there():
    assert choose_methods(("all",), memory=5) == (tuple(METHODS), ())
    chosen, notes = choose_methods(("all",), memory=0)
    assert set(METHODS) - set(chosen) == NEED_EXEMPLARS
    assert notes[0] == "FT^NEM is left out: it needs exemplars, and memory is 0" and len(notes) == len(NEED_EXEMPLARS)
    assert choose_methods(("scail", "ft"), memory=0) == (("ft", "scail"), ())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("ft_nem",), "needs exemplars"),
        (("all", "ft_nem"), "needs exemplars"),
        (("sacil",), "unknown method sacil"),
        ((), "unknown method"),
    ],
)
def test_a_method_that_cannot_be_is_an_error_when_named(names, message):
    with pytest.raises(ValueError, match=message):
        choose_methods(names, memory=0)


def test_a_method_takes_its_settings_from_the_experiment():
    options = HeadOptions(candidates=1, as_published=True)
    correction = {"alpha": torch.tensor(0.5), "beta": torch.tensor(2.0)}
    learned = Learned(network=None, memory=None, evidence=EXAMPLE, carried=correction)
    expected = heads.scail(EXAMPLE, candidates=1, as_published=True)
    assert torch.equal(head_of("scail", options, learned).scores(X), expected.scores(X))
    assert torch.equal(head_of("ft", options, learned).scores(X), heads.ft(EXAMPLE).scores(X))
    assert torch.equal(head_of("bic", options, learned).scores(X), heads.bic(EXAMPLE, **correction).scores(X))
