"""Heads that are made of moments: worked by hand, against scikit-learn, and against loops that leave images out."""

import importlib
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from torch.nn import functional as F

from scail import heads
from scail.heads import Moments
from scail.heads.fetril import with_pseudo_features
from scail.heads.slda import shrunk_covariance
from scail.heads.strangeness import Familiar, similar_left_out, strangeness_of
from scail.methods import METHODS
from tests.heads.evidence import make_evidence

ridge_module = importlib.import_module("scail.heads.ridge")  # scail.heads.ridge is the head
X = torch.tensor([[2.0, 1.0]])
EXACT = {"ncm": heads.ncm, "slda": heads.slda, "ridge": heads.ridge}
LEFT_OUT = {"ncm": heads.ncm_left_out, "slda": heads.slda_left_out, "ridge": heads.ridge_left_out}
TOLERANCE = 1e-4  # of the range of the scores, as `Moments` promises


def evidence_of(features, labels, classes=None, new=None):
    """Evidence with the moments of these images; those of the classes `new` are at hand as well."""
    features, labels = torch.as_tensor(features, dtype=torch.float32), torch.as_tensor(labels)
    classes = classes or int(labels.max()) + 1
    at_hand = torch.isin(labels, torch.tensor(list(range(classes) if new is None else new)))
    rows = [[0.0] * features.shape[1]] * classes
    return replace(
        make_evidence(rows, [0] * classes, rows, [0] * classes, [0] * classes),
        moments=Moments.of(features, labels, classes),
        new_features_MD=features[at_hand], new_labels_M=labels[at_hand],
    )  # fmt: skip


def clouds(classes=4, each=9, size=6, seed=0):
    """Images of classes around different means, stretched along one direction."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)
    noise = torch.randn(len(labels), size, generator=draw)
    noise += 2 * torch.randn(len(labels), 1, generator=draw) * torch.randn(1, size, generator=draw)
    return 3 + torch.randn(classes, size, generator=draw)[labels] * 2 + noise, labels


def assert_head(head, weight, bias, scores_of_x):
    torch.testing.assert_close(head.weight_CD, torch.tensor(weight, dtype=torch.float32))
    torch.testing.assert_close(head.bias_C, torch.tensor(bias, dtype=torch.float32))
    torch.testing.assert_close(head.scores(X), torch.tensor([scores_of_x], dtype=torch.float32))


def assert_same_scores(found, expected):
    finite = expected[expected > -torch.inf]
    span = max(float(finite.max() - finite.min()), 1e-6) if len(finite) else 1.0
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE * span)


# --- Worked by hand


def test_moments_are_counts_sums_and_one_gram_matrix():
    found = Moments.of(torch.tensor([[1.0, 0.0], [3.0, 2.0], [0.0, 5.0]]), torch.tensor([0, 0, 2]), 4)
    assert found.count_C.tolist() == [2, 0, 1, 0] and found.images == 3
    assert found.sum_CD.tolist() == [[4, 2], [0, 0], [0, 5], [0, 0]]
    assert found.mean_CD.tolist() == [[2, 1], [0, 0], [0, 5], [0, 0]]
    assert found.gram_DD.tolist() == [[10, 6], [6, 29]]  # 1 + 9, 6; 6, 4 + 25
    # around their means: (-1, -1), (1, 1), (0, 0)
    assert found.within_DD.tolist() == [[2, 2], [2, 2]]
    # around (4, 7) / 3: 10 - 16/3, 6 - 28/3, 29 - 49/3
    torch.testing.assert_close(
        found.total_DD, torch.tensor([[14 / 3, -10 / 3], [-10 / 3, 38 / 3]], dtype=torch.float64)
    )


def test_ncm_is_the_cosine_with_the_mean():
    # means (3, 4) and (0, -2): of unit length (0.6, 0.8) and (0, -1); x = (2, 1) becomes (2, 1) / sqrt(5)
    head = heads.ncm(evidence_of([[2, 3], [4, 5], [0, -2]], [0, 0, 1]))
    assert_head(head, [[0.6, 0.8], [0, -1]], [0, 0], [2 / math.sqrt(5), -1 / math.sqrt(5)])


def test_slda_of_a_round_covariance():
    # means (2, 0) and (0, 2); the scatter is 2 along each axis, of freedom 4 - 2: the identity, which nothing shrinks
    # weights: the means; biases -2 and -2; scores 4 - 2, 2 - 2
    head = heads.slda(evidence_of([[1, 0], [3, 0], [0, 1], [0, 3]], [0, 0, 1, 1]))
    assert_head(head, [[2, 0], [0, 2]], [-2, -2], [2, 0])


def test_slda_of_a_flat_covariance():
    # means (0, 0) and (3, 1); offsets along the first axis only: scatter 4 + 4 of freedom 10 - 2: diag(1, 0)
    # OAS with D = 2: (0 + 1) / (8 * (1 - 1/2)) = 1/4; its square root 1/2: diag(1/2 + 1/4, 1/4)
    # weight (3 / 0.75, 1 / 0.25) = (4, 4); bias -(12 + 4) / 2; score 8 + 4 - 8
    offsets = torch.tensor([[-1.0, 0], [-1, 0], [0, 0], [1, 0], [1, 0]])
    features = torch.cat([offsets, offsets + torch.tensor([3.0, 1.0])])
    evidence = evidence_of(features, torch.arange(2).repeat_interleave(5))
    covariance, share = shrunk_covariance(evidence.known_moments)
    assert share == pytest.approx(0.5)
    torch.testing.assert_close(covariance, torch.tensor([[0.75, 0], [0, 0.25]], dtype=torch.float64))
    assert_head(heads.slda(evidence), [[0, 0], [4, 4]], [0, -8], [0, 4])


def test_how_far_a_class_is_behind_without_one_of_its_images():
    # the identity, and noise of squared length 2 an image: 1 in a mean of two, 2 in a mean of one; half of what is more
    evidence = evidence_of([[1, 0], [3, 0], [0, 1], [0, 3], [5, 5]], [0, 0, 1, 1, 2])
    assert heads.slda_behind(evidence.known_moments).tolist() == [0.5, 0.5, 0]  # the only one is not left out


def test_an_image_that_is_left_out_scores_as_much_less_than_a_fresh_one():
    classes, each, size, draw = 300, 3, 30, torch.Generator().manual_seed(0)
    means = torch.randn(classes, size, generator=draw)
    labels, tested = (torch.arange(classes).repeat_interleave(count) for count in (each, 20))
    features, fresh = (means[of] + torch.randn(len(of), size, generator=draw) for of in (labels, tested))
    moments = Moments.of(features, labels, classes)
    left_out = heads.slda_left_out(moments, features, labels).gather(1, labels[:, None]).mean()
    whole = heads.slda(evidence_of(features, labels)).scores(fresh).gather(1, tested[:, None]).mean()
    assert float(heads.slda_behind(moments)[0]) == pytest.approx(float(whole - left_out), rel=0.1)


def test_ridge_with_one_strength(monkeypatch):
    # features -1 and 1, mean 0, scatter 2, mean scatter 2: with strength 1 the penalty is 2
    # weights -1 / (2 + 2) and 1 / 4, offset 1/2 each: of 2 the scores are 0 and 1
    monkeypatch.setattr(ridge_module, "STRENGTHS", (1.0,))
    head = heads.ridge(evidence_of([[-1], [1]], [0, 1]))
    torch.testing.assert_close(head.weight_CD, torch.tensor([[-0.25], [0.25]]))
    torch.testing.assert_close(head.scores(torch.tensor([[2.0]])), torch.tensor([[0.0, 1.0]]))


def test_fetril_moves_features_of_the_most_similar_new_class_to_the_mean_of_a_past_one():
    # past class 0: mean (0, 2). New: class 1 with mean (3, 1), cosine 1 / sqrt(10); class 2: mean (0, -2), cosine -1
    # pseudo-features: (2, 1) - (3, 1) + (0, 2) and (4, 1) - (3, 1) + (0, 2)
    features = [[0, 1], [0, 3], [2, 1], [4, 1], [0, -1], [0, -3]]
    evidence = evidence_of(features, [0, 0, 1, 1, 2, 2], new=[1, 2])
    found, labels = with_pseudo_features(evidence)
    assert found.tolist() == [[2, 1], [4, 1], [0, -1], [0, -3], [-1, 2], [1, 2]]
    assert labels.tolist() == [1, 1, 2, 2, 0, 0]
    assert heads.fetril(evidence).scores(torch.tensor([[0.0, 5], [5, 2], [0, -1]])).argmax(1).tolist() == [0, 1, 2]


def test_pseudo_features_have_the_mean_of_their_class():
    features, labels = clouds(classes=5)
    evidence = evidence_of(features, labels, new=[3, 4])
    found, of = with_pseudo_features(evidence)
    for c in range(5):
        torch.testing.assert_close(found[of == c].mean(0), evidence.known_moments.mean_CD[c])


def test_an_image_that_is_not_similar_to_anything_has_the_offset_as_its_strangeness():
    # deviations 0.1 and 0.2: weights 10 and 5; strangeness -(10 a + 5 b): -7, -9 and -11, of which -9 is the middle
    similar = torch.tensor([0.5, 0.5 + 0.1, 0.5 + 0.2]).double(), torch.tensor([0.4, 0.6, 0.8]).double()
    weights = [1 / float(v.std(correction=0)) for v in similar]
    strange = [-(weights[0] * float(a) + weights[1] * float(b)) for a, b in zip(*similar, strict=True)]
    familiar = Familiar.of(similar, 1.0)  # all of them are below 1
    spread = strange[0] - strange[1]
    assert familiar.plain == pytest.approx(weights[0] / spread)
    assert familiar.white == pytest.approx(weights[1] / spread)
    found = [familiar.offset - familiar.plain * a - familiar.white * b for a, b in zip(*similar, strict=True)]
    assert [float(x) for x in found] == pytest.approx([1, 0, -1])


# --- Against scikit-learn and naive loops


def test_slda_is_linear_discriminant_analysis_with_equal_priors():
    features, labels = clouds()
    evidence = evidence_of(features, labels)
    _, share = shrunk_covariance(evidence.known_moments)
    assert 0.05 < share < 0.95  # the comparison means something
    # scikit-learn divides the scatter by the images, not by the freedom: its scores are ours times images / freedom
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=share, priors=[0.25] * 4)
    reference.fit(features.double().numpy(), labels.numpy())
    images = clouds(seed=1)[0]
    theirs = torch.from_numpy(reference.decision_function(images.double().numpy())) * (36 - 4) / 36
    ours = heads.slda(evidence).scores(images).double()
    theirs, ours = theirs - theirs.mean(1, keepdim=True), ours - ours.mean(1, keepdim=True)  # equal but for a constant
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def penalty_of(evidence):
    """The strength that generalised cross-validation chooses, by hat matrices."""
    moments = evidence.known_moments
    features, labels = evidence.new_features_MD.double(), evidence.new_labels_M
    targets = F.one_hot(labels, len(moments.count_C)).double()
    n = len(labels)
    centred = features - features.mean(0)

    def error(penalty):
        hat = centred @ torch.linalg.solve(
            centred.T @ centred + penalty * torch.eye(features.shape[1], dtype=torch.float64), centred.T
        ) + torch.full((n, n), 1 / n, dtype=torch.float64)
        return float(((targets - hat @ targets) ** 2).sum()) / (1 - float(hat.trace()) / n) ** 2

    unit = float(moments.total_DD.trace()) / features.shape[1]
    return min((s * unit for s in ridge_module.STRENGTHS), key=error)


@pytest.mark.parametrize("seed", range(3))
def test_ridge_is_least_squares_with_the_strength_of_generalised_cross_validation(seed):
    features, labels = clouds(seed=seed)
    evidence = evidence_of(features, labels)
    reference = Ridge(alpha=penalty_of(evidence)).fit(features.double().numpy(), F.one_hot(labels).double().numpy())
    images = clouds(seed=seed + 10)[0]
    theirs = torch.from_numpy(reference.predict(images.double().numpy())).float()
    torch.testing.assert_close(heads.ridge(evidence).scores(images), theirs, rtol=1e-4, atol=1e-5)


def left_out_images(moments, features, labels):
    """For each image: its features, its label, and the moments without it."""
    for feature, label in zip(features, labels, strict=True):
        yield feature.double(), int(label), moments.without(feature[None], label[None])


def covariance_without(moments, others):
    """Shrunk as with the image: the same share, the same target, the same freedom."""
    covariance, share = shrunk_covariance(moments)
    freedom = max(1, moments.images - int((moments.count_C > 0).sum()))
    change = (others.within_DD - moments.within_DD) / freedom
    return covariance + (1 - share) * change


WITH_LONELY = (
    torch.cat([clouds()[0], torch.tensor([[1.0, 2, 3, 4, 5, 6]])]),
    torch.cat([clouds()[1], torch.tensor([5])]),
)


@pytest.mark.parametrize(("features", "labels"), [clouds(), clouds(each=2, seed=3), WITH_LONELY])
def test_images_left_out_by_a_closed_form_or_in_a_loop(features, labels):
    moments = Moments.of(features, labels, 6)  # class 4, at least, has no images
    penalty = penalty_of(evidence_of(features, labels, 6))
    loops = {"ncm": [], "slda": [], "ridge": []}
    for x, _, others in left_out_images(moments, features, labels):
        gone = others.count_C == 0
        mean = others.mean_CD
        weight = torch.linalg.solve(covariance_without(moments, others), mean.T).T
        axes = others.total_DD + penalty * torch.eye(6, dtype=torch.float64)
        middle = others.sum_CD.sum(0) / others.images
        rows = torch.linalg.solve(axes, (others.sum_CD - others.count_C[:, None] * middle).T).T
        scores = {
            "ncm": F.normalize(mean, dim=1) @ F.normalize(x, dim=0),
            "slda": weight @ x - 0.5 * (weight * mean).sum(1),
            "ridge": rows @ (x - middle) + others.count_C / others.images,
        }
        for name, of_image in scores.items():
            loops[name].append(of_image.masked_fill(gone, -torch.inf))
    for name, closed_form in LEFT_OUT.items():
        torch.testing.assert_close(closed_form(moments, features, labels), torch.stack(loops[name]))


@pytest.mark.parametrize(("features", "labels"), [clouds(), clouds(each=3, seed=3)])
def test_likeness_left_out_by_a_closed_form_or_in_a_loop(features, labels):
    moments = Moments.of(features, labels, 5)  # class 4 has no images
    middle = moments.mean_CD[:4].mean(0)
    expected = []
    for x, _, others in left_out_images(moments, features, labels):
        mean = others.mean_CD[:4]
        precision = torch.linalg.inv(covariance_without(moments, others))
        off = x - middle
        white = [
            float(
                off
                @ precision
                @ (m - middle)
                / ((off @ precision @ off) * ((m - middle) @ precision @ (m - middle))).sqrt()
            )
            for m in mean
        ]
        plain = F.normalize(mean, dim=1) @ F.normalize(x, dim=0)
        expected.append((float(plain.max()), max(white)))
    found = torch.stack(similar_left_out(moments, features, labels), dim=1)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_strangeness_is_low_for_what_was_learned_and_high_elsewhere():
    features, labels = clouds(each=40, size=12)
    moments = Moments.of(features, labels, 4)
    familiar = Familiar.of(similar_left_out(moments, features, labels), 0.95)
    measure = strangeness_of(moments, familiar)
    learned = measure.measure(features)
    assert float((learned > 1).float().mean()) <= 0.05  # these are not left out: a little more familiar still
    assert abs(float(learned.median())) < 0.3
    assert float((measure.measure(-features) > 1).float().mean()) > 0.9


# --- The same, however it was learned


@st.composite
def streams(draw):
    """Images, and some ways to cut them into calls: by cuts anywhere in any order, or class by class."""
    classes, size = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    labels = torch.tensor(draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=30)))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    features = draw(st.sampled_from([0.01, 1.0, 100.0])) * torch.randn(len(labels), size, generator=random)
    features = features.abs() if draw(st.booleans()) else features
    order = torch.randperm(len(labels), generator=random)
    if draw(st.booleans()):
        calls = [(labels == c).nonzero().flatten() for c in range(classes)]
    else:
        cuts = sorted(draw(st.lists(st.integers(0, len(labels)), max_size=6)))
        calls = list(order.tensor_split(cuts))
    return features, labels, classes, [call for call in calls if len(call)]


def assert_same_moments(found, expected):
    assert torch.equal(found.count_C, expected.count_C)
    for name in ("sum_CD", "gram_DD"):
        one, other = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(
            one,
            other,
            rtol=0,
            atol=1e-9
            * float(expected.gram_DD.abs().max()) ** 0.5
            * max(1.0, float(expected.gram_DD.abs().max()) ** 0.5),
        )


@settings(max_examples=60, deadline=None)
@given(streams())
def test_one_call_or_many_in_any_order_give_the_same_moments_and_scores(stream):
    features, labels, classes, calls = stream
    at_once = evidence_of(features, labels, classes)
    known, moments = 0, None
    for call in calls:  # as many classes as have come by then
        known = max(known, int(labels[call].max()) + 1)
        more = Moments.of(features[call], labels[call], known)
        moments = more if moments is None else moments + more
    moments = moments + Moments.of(features[:0], labels[:0], classes)
    assert_same_moments(moments, at_once.known_moments)
    images = torch.cat([features, -features])
    for head in EXACT.values():
        assert_same_scores(head(replace(at_once, moments=moments)).scores(images), head(at_once).scores(images))


@settings(max_examples=40, deadline=None)
@given(streams(), st.data())
def test_what_is_taken_out_was_never_there(stream, data):
    features, labels, classes, _ = stream
    gone = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels))))
    if gone.all():
        gone[0] = False
    after = Moments.of(features, labels, classes).without(features[gone], labels[gone])
    expected = evidence_of(features[~gone], labels[~gone], classes)
    assert_same_moments(after, expected.known_moments)
    for head in EXACT.values():
        assert_same_scores(head(replace(expected, moments=after)).scores(features), head(expected).scores(features))


# --- Little, much, and nothing


@pytest.mark.parametrize("name", [*EXACT, "fetril"])
class TestEdges:
    def test_a_class_without_images_cannot_be_predicted(self, name):
        features, labels = clouds(classes=3)
        scores = METHODS[name].head(evidence_of(features, labels * 2, classes=6)).scores(features)
        assert (scores[:, [1, 3, 5]] == -torch.inf).all() and scores[:, [0, 2, 4]].isfinite().all()

    def test_one_class(self, name):
        scores = METHODS[name].head(evidence_of([[1, 2], [2, 3]], [0, 0])).scores(X)
        assert scores.shape == (1, 1) and scores.isfinite().all()

    def test_one_image_in_all(self, name):
        assert METHODS[name].head(evidence_of([[1, 2]], [0])).scores(X).isfinite().all()

    def test_one_image_a_class(self, name):
        features = [[5, 0, 0], [0, 5, 0], [0, 0, 5]]
        scores = METHODS[name].head(evidence_of(features, [0, 1, 2])).scores(torch.tensor(features).float() + 1)
        assert scores.argmax(1).tolist() == [0, 1, 2]

    def test_images_that_are_all_alike_within_their_class(self, name):
        # what is left of their scatter is rounding
        means, labels = clouds(classes=5, each=1, size=40)
        features = means.repeat_interleave(7, 0) * 33.3
        found = METHODS[name].head(evidence_of(features, labels.repeat_interleave(7))).scores(features)
        assert found.isfinite().all()
        assert found.argmax(1).tolist() == labels.repeat_interleave(7).tolist()

    def test_features_of_zero(self, name):
        assert (
            not METHODS[name]
            .head(evidence_of(torch.zeros(6, 3), [0, 0, 0, 1, 1, 1]))
            .scores(X @ torch.zeros(2, 3))
            .isnan()
            .any()
        )


@pytest.mark.parametrize("seed", range(8))
def test_rounding_is_not_taken_for_a_covariance(seed):
    means, labels = clouds(classes=9, each=1, size=4, seed=seed)
    moments = Moments.of((means * 33.3).repeat_interleave(7, 0), labels.repeat_interleave(7), 9)
    covariance, share = shrunk_covariance(moments)
    assert share == 1 and torch.equal(covariance, torch.eye(4, dtype=torch.float64))


@pytest.mark.parametrize("name", EXACT)
def test_a_thousand_classes(name):
    features, labels = clouds(classes=1000, each=3, size=32)
    evidence = evidence_of(features, labels)
    scores = METHODS[name].head(evidence).scores(features)
    assert scores.shape == (3000, 1000) and scores.isfinite().all()
    assert float((scores.argmax(1) == labels).float().mean()) > 0.05  # by chance: 0.001
    left = METHODS[name].left_out(evidence.known_moments, features[:50], labels[:50])
    assert left.shape == (50, 1000) and not left.isnan().any()


@pytest.mark.parametrize("name", [*EXACT, "fetril"])
def test_without_moments_a_head_of_moments_says_so(name):
    evidence = make_evidence([[0.0]], [0], [[0.0]], [0], [0])
    with pytest.raises(ValueError, match="made of moments, which only a frozen network has"):
        METHODS[name].head(evidence)


def test_fetril_without_images_at_hand_is_the_nearest_mean():
    # Its newest class was forgotten, and nothing was kept: means are all there is.
    evidence = evidence_of([[5, 0], [0, 5]], [0, 1], new=[])
    assert heads.fetril(evidence).scores(torch.tensor([[4.0, 1], [1, 4]])).argmax(1).tolist() == [0, 1]
