"""The heads beyond the paper, and those that read what their trainer left: worked by hand, or against scikit-learn."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from torch.nn import functional as F

from scail import heads
from tests.heads.evidence import evidences, make_evidence

# Three classes, two features. Class 0 was new in state 0, class 1 in state 1; class 2 is new now, in state 2.
EXAMPLE = replace(
    make_evidence(
        weight=[[0, 2], [-6, 8], [3, -4]],
        bias=[0.5, -0.5, 1.0],
        initial_weight=[[2, -4], [-1, 8], [3, -4]],
        initial_bias=[2.0, -0.25, 1.0],
        first_state=[0, 1, 2],
    ),
    train_count_C=torch.tensor([10, 30, 60]),
    initial_score_C=torch.tensor([6.0, 5.0, 7.0]),
    exemplar_score_C=torch.tensor([3.0, 10.0, 7.0]),
    top_score_S=torch.tensor([2.0, 1.0, 8.0]),
)
X = torch.tensor([[2.0, 1.0]])  # FT: 0*2 + 2*1 + 0.5 = 2.5,  -6*2 + 8*1 - 0.5 = -4.5,  3*2 - 4*1 + 1 = 3


def assert_head(head, weight, bias, scores_of_x):
    torch.testing.assert_close(head.weight_CD, torch.tensor(weight, dtype=torch.float32))
    torch.testing.assert_close(head.bias_C, torch.tensor(bias, dtype=torch.float32))
    torch.testing.assert_close(head.scores(X), torch.tensor([scores_of_x], dtype=torch.float32))


def test_wa_makes_new_rows_as_long_as_past_ones_on_average():
    # lengths 2 and 10 (past), 5 (new): the factor of new rows and biases is (2 + 10) / 2 / 5 = 1.2
    # the new score: 3.6*2 - 4.8*1 + 1.2 = 1.2 * 3
    assert_head(heads.ft_wa(EXAMPLE), [[0, 2], [-6, 8], [3.6, -4.8]], [0.5, -0.5, 1.2], [2.5, -4.5, 3.6])


def test_wa_takes_the_mean_of_the_lengths_over_several_new_classes():
    # past: 5. New: 3 and 7, mean 5: nothing to do. New: 1 and 4, mean 2.5: factor 2.
    for new, expected in (([[3, 0], [0, 7]], [[3, 0], [0, 7]]), ([[1, 0], [0, -4]], [[2, 0], [0, -8]])):
        rows = [[3, 4], *new]
        head = heads.ft_wa(make_evidence(rows, [1, 1, 1], rows, [1, 1, 1], first_state=[0, 1, 1]))
        assert head.weight_CD.tolist() == [[3, 4], *expected]
        assert head.bias_C.tolist() == [1, expected[0][0] / new[0][0], expected[0][0] / new[0][0]]


@settings(max_examples=30, deadline=None)
@given(evidences())
def test_after_wa_the_mean_lengths_are_equal_and_past_rows_are_ft_s(evidence):
    head, past = heads.ft_wa(evidence), evidence.past
    assert torch.equal(head.weight_CD[:past], evidence.weight_CD[:past])
    before, after = evidence.weight_CD.norm(dim=1), head.weight_CD.norm(dim=1)
    if past and before[past:].any():  # rows of zeros cannot be made longer
        torch.testing.assert_close(after[past:].mean(), before[:past].mean())
    else:
        assert torch.equal(head.weight_CD, evidence.weight_CD)


def test_prior_takes_the_log_of_the_training_shares_out_of_the_scores():
    # shares 10/100, 30/100, 60/100; the rarer a class was, the more its score rises
    a, b, c = math.log(10), math.log(10 / 3), math.log(10 / 6)
    weight = [[0, 2], [-6, 8], [3, -4]]
    assert_head(heads.prior(EXAMPLE), weight, [0.5 + a, -0.5 + b, 1 + c], [2.5 + a, -4.5 + b, 3 + c])
    assert_head(heads.prior(EXAMPLE, tau=2), weight, [0.5 + 2 * a, -0.5 + 2 * b, 1 + 2 * c],
                [2.5 + 2 * a, -4.5 + 2 * b, 3 + 2 * c])  # fmt: skip
    assert torch.equal(heads.prior(EXAMPLE, tau=0).scores(X), heads.ft(EXAMPLE).scores(X))


def test_prior_takes_a_class_without_training_images_to_have_had_one():
    # 0, 3 and 6 images are taken as 1, 3 and 6 of 10: the score is lifted, not infinite
    head = heads.prior(replace(EXAMPLE, train_count_C=torch.tensor([0, 3, 6])))
    expected = [0.5 + math.log(10), -0.5 + math.log(10 / 3), 1 + math.log(10 / 6)]
    assert head.bias_C.tolist() == pytest.approx(expected)


def test_tau_norm_divides_rows_by_a_power_of_their_length_and_drops_the_biases():
    # lengths 4, 25 and 9; with tau 1/2 rows are divided by 2, 5 and 3; scores 2*1,  -1.4*2 + 4.8*1,  -3*1
    rows = [[0, 4], [-7, 24], [0, -9]]
    evidence = make_evidence(rows, [5, 6, 7], rows, [5, 6, 7], first_state=[0, 1, 2])
    assert_head(heads.tau_norm(evidence, tau=0.5), [[0, 2], [-1.4, 4.8], [0, -3]], [0, 0, 0], [2.0, 2.0, -3.0])


@settings(max_examples=30, deadline=None)
@given(evidences())
def test_tau_norm_is_ft_without_biases_at_0_and_ft_l2_at_1(evidence):
    assert torch.equal(heads.tau_norm(evidence, tau=0).weight_CD, evidence.weight_CD)
    assert not heads.tau_norm(evidence, tau=0).bias_C.any()
    torch.testing.assert_close(heads.tau_norm(evidence, tau=1).weight_CD, heads.ft_l2(evidence).weight_CD)
    assert torch.equal(heads.tau_norm(evidence, tau=1).bias_C, heads.ft_l2(evidence).bias_C)


def test_il2m_lifts_past_scores_only_where_a_new_class_would_win():
    # classes: 6/3 = 2 and 5/10 = 0.5; states: 8/2 = 4 and 8/1 = 8; factors 2*4 = 8 and 0.5*8 = 4
    # (2, 1): FT says 2.5, -4.5, 3: the new class would win. 2.5*8,  -4.5*4,  3: class 0 wins instead.
    # (0, 1): FT says 2.5, 7.5, -3: a past class wins, nothing changes (7.5*4 or 2.5*8 would tell).
    scores = heads.il2m(EXAMPLE).scores(torch.tensor([[2.0, 1.0], [0.0, 1.0]]))
    assert scores.tolist() == [[20, -18, 3], [2.5, 7.5, -3]]


@pytest.mark.parametrize(
    ("given", "factors"),
    [
        ({"exemplar_score_C": [0.0, -2.0, 7.0]}, [4, 8]),  # no exemplars, or a negative mean: the states' ratio is left
        ({"initial_score_C": [-6.0, 5.0, 7.0]}, [4, 4]),
        ({"initial_score_C": [-6.0, -5.0, 7.0], "exemplar_score_C": [-3.0, -10.0, 7.0]}, [4, 8]),  # not 2 and 0.5
        ({"top_score_S": [-2.0, 1.0, 8.0]}, [2, 4]),
        ({"top_score_S": [2.0, 1.0, 0.0]}, [2, 0.5]),
    ],
)
def test_il2m_takes_a_ratio_of_means_that_are_not_positive_as_1(given, factors):
    evidence = replace(EXAMPLE, **{name: torch.tensor(values) for name, values in given.items()})
    assert heads.il2m(evidence).scores(X).tolist() == [[2.5 * factors[0], -4.5 * factors[1], 3]]


def test_siw_standardises_initial_rows_of_past_classes_and_current_rows_of_new_ones():
    # (2, -4): mean -1, (3, -3), deviation 3. (-1, 8): mean 3.5, (-4.5, 4.5), deviation 4.5. (3, -4): (3.5, -3.5).
    # biases as in FT_init; scores 2 - 1 + 2,  -2 + 1 - 0.25,  2 - 1 + 1
    assert_head(heads.siw(EXAMPLE), [[1, -1], [-1, 1], [1, -1]], [2.0, -0.25, 1.0], [3.0, -1.25, 2.0])


def test_siw_divides_by_the_deviation_of_all_weights_of_a_row():
    # mean 2, deviation 2; mean 3, (-2, 0, 0, 2), squares' mean 2: deviation sqrt(2); a constant row has no deviation
    rows = [[0, 0, 4, 4], [1, 3, 3, 5], [6, 6, 6, 6]]
    head = heads.siw(make_evidence(rows, [0, 0, 0], rows, [0, 0, 0], first_state=[0, 0, 1]))
    r = math.sqrt(2)
    expected = torch.tensor([[-1, -1, 1, 1], [-r, 0, 0, r], [0, 0, 0, 0]], dtype=torch.float32)
    torch.testing.assert_close(head.weight_CD, expected)


@settings(max_examples=30, deadline=None)
@given(evidences())
def test_after_siw_every_row_has_mean_0_and_deviation_1(evidence):
    rows = heads.siw(evidence).weight_CD.double()
    spread = heads.ft_init(evidence).weight_CD.amax(1) - heads.ft_init(evidence).weight_CD.amin(1)
    # Of nearly equal weights, rounding decides.
    mean, deviation = rows.mean(1)[spread > 1e-2], rows.std(1, correction=0)[spread > 1e-2]
    torch.testing.assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-4)
    torch.testing.assert_close(deviation, torch.ones_like(deviation), rtol=0, atol=1e-3)


def test_siw_mc_multiplies_the_scores_of_a_state_by_the_ratio_of_mean_top_scores():
    # factors 8/2 = 4 and 8/1 = 8, and 1 for the current state; scores of SIW 3, -1.25, 2
    assert_head(heads.siw_mc(EXAMPLE), [[4, -4], [-8, 8], [1, -1]], [8.0, -2.0, 1.0], [12.0, -10.0, 2.0])


@pytest.mark.parametrize(("top", "factors"), [([0.0, 1.0, 8.0], [1, 8, 1]), ([2.0, 1.0, -8.0], [1, 1, 1])])
def test_siw_mc_takes_a_ratio_of_means_that_are_not_positive_as_1(top, factors):
    head = heads.siw_mc(replace(EXAMPLE, top_score_S=torch.tensor(top)))
    assert head.bias_C.tolist() == [2 * factors[0], -0.25 * factors[1], factors[2]]


def images_of(counts, seed, dimensions=3):
    """Correlated features around a mean for each class, and their labels."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    mix = torch.randn(dimensions, dimensions, generator=draw)
    means = torch.randn(len(counts), dimensions, generator=draw)
    return means[labels] + torch.randn(len(labels), dimensions, generator=draw) @ mix, labels


def with_images(counts, past, seed=0):
    """Evidence with these numbers of images; new classes also have exemplars, but nonsense: nobody may use them."""
    features, labels = images_of(counts, seed)
    is_past = labels < past
    layer = torch.zeros(len(counts), 3).tolist()
    first_state = [int(label >= past) for label in range(len(counts))]
    nonsense, new_labels = torch.full((len(counts) - past, 3), 1e3), torch.arange(past, len(counts))
    evidence = make_evidence(
        layer, [0] * len(counts), layer, [0] * len(counts), first_state,
        torch.cat([features[is_past], nonsense]).tolist(), torch.cat([labels[is_past], new_labels]).tolist(),
    )  # fmt: skip
    return replace(evidence, new_features_MD=features[~is_past], new_labels_M=labels[~is_past]), features, labels


@pytest.mark.parametrize("shrinkage", [0.1, 0.7])
@pytest.mark.parametrize("counts", [[4, 5, 30, 40], [3, 0, 30, 25, 20]])
def test_slda_is_linear_discriminant_analysis_with_equal_priors(counts, shrinkage):
    evidence, features, labels = with_images(counts, past=2)
    seen = [label for label, count in enumerate(counts) if count]
    reference = LinearDiscriminantAnalysis("lsqr", shrinkage=shrinkage, priors=np.full(len(seen), 1 / len(seen)))
    reference.fit(features.double().numpy(), labels.numpy())
    head = heads.ft_slda(evidence, shrinkage)
    torch.testing.assert_close(head.weight_CD[seen].double(), torch.from_numpy(reference.coef_), rtol=1e-4, atol=1e-4)
    offset = torch.from_numpy(reference.intercept_) + math.log(len(seen))  # the log of the equal priors
    torch.testing.assert_close(head.bias_C[seen].double(), offset, rtol=1e-4, atol=1e-4)


def test_slda_in_one_dimension_by_hand():
    # class 0: 0 and 2, mean 1, variance 1. Class 1 (new): 4, 4, 10, 10, mean 7, variance 9. Each class weighs the same:
    # variance 5, and shrinking changes nothing in one dimension. w = mean / 5, b = -mean^2 / 10.
    evidence = make_evidence([[0], [0]], [0, 0], [[0], [0]], [0, 0], [0, 1], [[0], [2]], [0, 0])
    four = {"new_features_MD": torch.tensor([[4.0], [4], [10], [10]]), "new_labels_M": torch.ones(4, dtype=torch.int64)}
    head = heads.ft_slda(replace(evidence, **four))
    torch.testing.assert_close(head.weight_CD, torch.tensor([[0.2], [1.4]]))
    torch.testing.assert_close(head.bias_C, torch.tensor([-0.1, -4.9]))
    # half way between the means both classes score the same
    scores = head.scores(torch.tensor([[4.0]]))[0]
    assert scores[0].item() == pytest.approx(scores[1].item(), abs=1e-6)


@pytest.mark.parametrize("strength", [0.1, 2.0])
@pytest.mark.parametrize("counts", [[4, 5, 30, 40], [3, 0, 30, 25, 20]])
def test_ridge_is_scikit_learns_with_equal_weight_for_every_class(counts, strength):
    evidence, features, labels = with_images(counts, past=2)
    seen = [label for label, count in enumerate(counts) if count]
    x, y = features.double().numpy(), np.where(labels.numpy()[:, None] == np.array(seen), 1.0, -1.0)
    weights = np.array([1 / (counts[label] * len(seen)) for label in labels.tolist()])  # they add up to 1
    variance = weights @ (x - weights @ x) ** 2
    reference = Ridge(alpha=strength * variance.mean()).fit(x, y, sample_weight=weights)
    head = heads.ft_ridge(evidence, strength)
    torch.testing.assert_close(head.weight_CD[seen].double(), torch.from_numpy(reference.coef_), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(head.bias_C[seen].double(), torch.from_numpy(reference.intercept_), rtol=1e-4, atol=1e-5)


def test_duet_adds_siw_mc_and_ridge_at_equal_spread():
    evidence, features, _ = with_images([4, 5, 30, 40], past=2)
    evidence = replace(
        evidence, initial_weight_CD=torch.randn(4, 3, generator=torch.Generator().manual_seed(1)),
        weight_CD=torch.randn(4, 3, generator=torch.Generator().manual_seed(2)), top_score_S=torch.tensor([2.0, 3.0]),
    )  # fmt: skip
    expected = torch.zeros(len(features), 4)
    for head in (heads.siw_mc(evidence), heads.ft_ridge(evidence)):
        on_exemplars = head.scores(evidence.exemplar_features_ED).numpy()
        expected += head.scores(features) / float(on_exemplars.std(axis=1).mean())
    torch.testing.assert_close(heads.duet(evidence).scores(features), expected, rtol=1e-4, atol=1e-4)


def test_duet_knows_a_class_without_images_by_its_initial_weights_alone():
    evidence, features, _ = with_images([3, 0, 30, 25, 20], past=2)
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(3))
    evidence = replace(evidence, initial_weight_CD=rows, weight_CD=rows, top_score_S=torch.tensor([2.0, 2.0]))
    scores = heads.duet(evidence).scores(features)
    assert scores.isfinite().all() and (scores.argmax(1) == 1).any()
    initial = heads.siw_mc(evidence).scores(features)[:, 1]
    change = torch.stack([scores[:, 1], initial], 1) - torch.stack([scores[:, 1], initial], 1)[:1]
    torch.testing.assert_close(change[:, 0] * change[1, 1], change[:, 1] * change[1, 0], rtol=1e-3, atol=1e-3)


def test_duet_without_any_exemplar_is_siw_mc():
    evidence, features, _ = with_images([3, 0, 30, 25, 20], past=2)
    none = {"exemplar_features_ED": torch.zeros(0, 3), "exemplar_labels_E": torch.zeros(0, dtype=torch.int64)}
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(3))
    bare = replace(evidence, initial_weight_CD=rows, weight_CD=rows, top_score_S=torch.tensor([2.0, 2.0]), **none)
    torch.testing.assert_close(heads.duet(bare).scores(features), heads.siw_mc(bare).scores(features))
    bare = replace(bare, new_features_MD=torch.zeros(0, 3), new_labels_M=torch.zeros(0, dtype=torch.int64))
    torch.testing.assert_close(heads.duet(bare).scores(features), heads.siw_mc(bare).scores(features))


def test_duet_of_one_class_alone_has_nothing_to_weigh():
    evidence = make_evidence([[1, 2]], [0.5], [[1, 2]], [0.5], [0], [[1, 1], [2, 1]], [0, 0])
    evidence = replace(evidence, new_features_MD=torch.tensor([[1.0, 1], [2, 1]]), new_labels_M=torch.tensor([0, 0]))
    assert heads.duet(evidence).scores(X).isfinite().all()


def test_icarls_duet_adds_the_layer_and_the_exemplar_means_at_equal_spread():
    # Features (3, 4) and (0, 2) of classes 0 and 1: means of unit length (0.6, 0.8) and (0, 1).
    evidence = make_evidence([[1, 0], [0, 2]], [1, 0], [[1, 0], [0, 2]], [1, 0], [0, 1], [[3, 4], [0, 2]], [0, 1])
    # The layer says (4, 8) and (1, 4) of them: a spread of 2 and 1.5, 1.75 in the mean; the means (5, 4) and (1.6, 2):
    # 0.5 and 0.2, 0.35 in the mean.
    # Of (2, 1): the layer 3 and 2, the means 2 and 1.
    expected = torch.tensor([[3 / 1.75 + 2 / 0.35, 2 / 1.75 + 1 / 0.35]])
    torch.testing.assert_close(heads.icarl_duet(evidence).scores(torch.tensor([[2.0, 1.0]])), expected)


def test_icarls_duet_knows_a_class_without_exemplars_by_the_layer_alone():
    evidence, features, _ = with_images([3, 0, 30, 25, 20], past=2)
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(3))
    evidence = replace(evidence, weight_CD=rows)
    scores, layer = heads.icarl_duet(evidence).scores(features), heads.ft(evidence).scores(features)
    of_exemplars = scores - layer / layer_spread(evidence)
    torch.testing.assert_close(of_exemplars[:, 1], of_exemplars[:, [0, 2, 3, 4]].mean(1), rtol=1e-4, atol=1e-4)
    none = {"exemplar_features_ED": torch.zeros(0, 3), "exemplar_labels_E": torch.zeros(0, dtype=torch.int64)}
    torch.testing.assert_close(heads.icarl_duet(replace(evidence, **none)).scores(features), layer)


def layer_spread(evidence):
    """Mean spread of the layer's scores on exemplars, over the classes that have some."""
    known = evidence.exemplar_labels_E.unique()
    return float(heads.ft(evidence).scores(evidence.exemplar_features_ED)[:, known].numpy().std(axis=1).mean())


@pytest.mark.parametrize("head", [heads.ft_slda, heads.ft_ridge])
def test_a_class_without_images_is_never_predicted(head):
    evidence, features, _ = with_images([3, 0, 30, 25, 20], past=2)
    scores = head(evidence).scores(10 * features)
    assert (scores[:, 1] == -math.inf).all()
    assert scores[:, [0, 2, 3, 4]].isfinite().all()
    assert set(scores.argmax(1).tolist()) == {0, 2, 3, 4}


def test_bic_corrects_the_scores_of_the_newest_classes_alone():
    # the new score 3 becomes 2 * 3 - 1; its row 2 * (3, -4), its bias 2 * 1 - 1
    head = heads.bic(EXAMPLE, torch.tensor(2.0), torch.tensor(-1.0))
    assert_head(head, [[0, 2], [-6, 8], [6, -8]], [0.5, -0.5, 1.0], [2.5, -4.5, 5.0])
    torch.testing.assert_close(EXAMPLE.weight_CD[2], torch.tensor([3.0, -4.0]))  # the layer itself is left alone


def test_the_svm_head_scores_features_of_unit_length():
    # (2, 1) becomes (2, 1) / sqrt(5); scores 1*2/s + 0.5,  2*1/s - 1,  (2 - 1)/s: the current layer has no part in it
    s = math.sqrt(5)
    weight, bias = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, -1.0]]), torch.tensor([0.5, -1.0, 0.0])
    head = heads.svm(EXAMPLE, weight, bias)
    assert_head(head, weight.tolist(), bias.tolist(), [2 / s + 0.5, 2 / s - 1, 1 / s])
    torch.testing.assert_close(head.scores(7 * X), head.scores(X))


@pytest.mark.parametrize(
    "head", [heads.ft_wa, heads.prior, heads.il2m, lambda e: heads.bic(e, torch.tensor(3.0), torch.tensor(-2.0))]
)
def test_in_state_0_predictions_are_ft_s(head):
    rows = [[1.0, -2.0], [0.5, 3.0], [-4.0, 0.5]]
    evidence = replace(
        make_evidence(rows, [1, -1, 0], rows, [1, -1, 0], first_state=[0, 0, 0]),
        train_count_C=torch.tensor([20, 20, 20]),
        initial_score_C=torch.tensor([1.0, 2.0, 3.0]),
        exemplar_score_C=torch.tensor([3.0, 2.0, 1.0]),
        top_score_S=torch.tensor([4.0]),
    )
    features = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    scores, of_ft = head(evidence).scores(features), heads.ft(evidence).scores(features)
    # All scores of an image may move together (the log of equal shares), no two of them apart.
    torch.testing.assert_close(scores - scores[:, :1], of_ft - of_ft[:, :1])
    assert F.one_hot(of_ft.argmax(1)).any(0).all()  # every class is predicted: the comparison means something
