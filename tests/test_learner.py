from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from scail.exemplars import herding_order
from scail.heads import evidence_of
from scail.heads.evidence import TENSORS
from scail.learner import Trained, remember
from scail.runtime.seeds import generator_for

# Three states of 2, 1 and 2 new classes; rows of the data set in no order, and unequal numbers of images.
CLASS_SIZES = [(6, 6), (5,), (7, 3)]
ROWS = torch.randperm(40, generator=torch.Generator().manual_seed(9))
FEATURE_SIZE = 3


def train(state, before):
    """What a training could have left: the network of state k sees row r as the feature `seen(k)[r]`."""
    past = sum(len(sizes) for sizes in CLASS_SIZES[:state])
    sizes = CLASS_SIZES[state]
    start = sum(sum(earlier) for earlier in CLASS_SIZES[:state])
    new_indices = ROWS[start : start + sum(sizes)]
    new_labels = torch.arange(past, past + len(sizes)).repeat_interleave(torch.tensor(sizes))
    linear = nn.utils.skip_init(nn.Linear, FEATURE_SIZE, past + len(sizes))
    with torch.no_grad():
        linear.weight.normal_(generator=generator_for(0, "weight", state))
        linear.bias.normal_(generator=generator_for(0, "bias", state))
    memory = before.memory if before else SimpleNamespace(indices=ROWS[:0], labels=ROWS[:0])
    features = seen(state)[torch.cat([new_indices, memory.indices])]
    return Trained(SimpleNamespace(linear=linear), new_indices, new_labels, memory.indices, memory.labels, features)


def seen(state):
    return torch.randn(40, FEATURE_SIZE, generator=generator_for(0, "features", state))


def learn(select, budget, seed=0):
    """Training and what is remembered, state by state."""
    steps, before = [], None
    for state in range(3):
        trained = train(state, before)
        before = remember(trained, before, select, budget, seed)
        steps.append((trained, before))
    return steps


# Fewer images than classes, fewer than all images, and more than there are.
BUDGETS = [0, 2, 11, 100]
few_places = pytest.mark.filterwarnings("ignore:memory of")


@few_places
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("select", ["random", "herding"])
def test_exemplar_features_are_the_present_networks_features_of_the_exemplars(select, budget):
    for state, (_, learned) in enumerate(learn(select, budget)):
        evidence, memory = learned.evidence, learned.memory
        assert len(memory) <= budget
        assert torch.equal(evidence.exemplar_features_ED, seen(state)[memory.indices])
        assert torch.equal(evidence.exemplar_labels_E, memory.labels)
    images = [size for sizes in CLASS_SIZES for size in sizes]
    places = {0: [0] * 5, 2: [1, 1, 0, 0, 0], 11: [3, 2, 2, 2, 2], 100: images}[budget]
    assert [len(rows) for rows in memory.exemplars] == places


@few_places
@pytest.mark.parametrize("budget", BUDGETS)
def test_evidence_is_what_a_naive_computation_gives(budget):
    weights, biases, first_state, initial_scores, top_scores = [], [], [], [], []
    for state, (trained, learned) in enumerate(learn("random", budget)):
        evidence = learned.evidence
        weight, bias = trained.network.linear.weight.detach(), trained.network.linear.bias.detach()
        labels = [*trained.new_labels.tolist(), *trained.exemplar_labels.tolist()]
        scores = [weight @ feature + bias for feature in trained.features_ND]
        own = [[scores[i][c].item() for i, label in enumerate(labels) if label == c] for c in range(len(bias))]
        new = range(len(first_state), len(bias))
        # Initial rows, states and scores are written down when a class is new, and kept.
        weights += [weight[c] for c in new]
        biases += [bias[c] for c in new]
        first_state += [state for _ in new]
        initial_scores += [sum(own[c]) / len(own[c]) for c in new]
        highest = [score.max().item() for score, label in zip(scores, labels, strict=True) if label in new]
        top_scores.append(sum(highest) / len(highest))

        assert (evidence.state, evidence.past) == (state, new.start)
        assert torch.equal(evidence.weight_CD, weight) and torch.equal(evidence.bias_C, bias)
        assert torch.equal(evidence.initial_weight_CD, torch.stack(weights))
        assert torch.equal(evidence.initial_bias_C, torch.stack(biases))
        assert evidence.first_state_C.tolist() == first_state
        assert evidence.train_count_C.tolist() == [len(of_class) for of_class in own]
        assert evidence.initial_score_C.tolist() == pytest.approx(initial_scores, abs=1e-5)
        assert evidence.top_score_S.tolist() == pytest.approx(top_scores, abs=1e-5)
        assert torch.equal(evidence.new_features_MD, seen(state)[trained.new_indices])
        assert torch.equal(evidence.new_labels_M, trained.new_labels)
        for c, rows in enumerate(learned.memory.exemplars):
            kept = [(weight[c] @ seen(state)[row] + bias[c]).item() for row in rows]
            expected = sum(kept) / len(kept) if kept else 0
            assert evidence.exemplar_score_C[c].item() == pytest.approx(expected, abs=1e-5)


def test_evidence_does_not_change_when_the_network_trains_on():
    (trained, learned), *_ = learn("random", 5)
    before = learned.evidence.weight_CD.clone()
    with torch.no_grad():
        trained.network.linear.weight.zero_()
    assert torch.equal(learned.evidence.weight_CD, before)
    assert torch.equal(learned.evidence.initial_weight_CD, before)


@few_places
@pytest.mark.parametrize("select", ["random", "herding"])
def test_the_order_of_a_class_does_not_depend_on_the_budget(select):
    # By a prefix: the smaller memory is inside the larger one, best first.
    large = learn(select, 100)[0][1].memory.exemplars
    for budget in (2, 3, 7):
        for some, all_of_it in zip(learn(select, budget)[0][1].memory.exemplars, large, strict=True):
            assert 0 < len(some) <= len(all_of_it)
            assert torch.equal(some, all_of_it[: len(some)])


def test_past_classes_keep_a_prefix_when_new_ones_come():
    steps = [learned.memory.exemplars for _, learned in learn("random", 11)]
    for before, after in pairwise(steps):
        for had, has in zip(before, after, strict=False):
            assert torch.equal(has, had[: len(has)])
    assert len(steps[2][0]) < len(steps[0][0])  # it did shrink


def test_a_random_order_is_drawn_for_each_class_and_seed():
    def orders(seed):
        # both classes of state 0 in terms of their own images: where in the class each exemplar stands
        (trained, learned), *_ = learn("random", 100, seed)
        rows = trained.new_indices.tolist()
        return [
            [rows.index(row) - start for row in e] for e, start in zip(learned.memory.exemplars, (0, 6), strict=True)
        ]

    first, second = orders(seed=0)
    assert sorted(first) == sorted(second) == list(range(6))
    assert first != second  # not one order for all classes
    assert orders(seed=0) == [first, second]
    assert orders(seed=1) != [first, second]


def test_herding_sees_the_features_of_the_state_in_which_the_class_is_new():
    for state, (trained, learned) in enumerate(learn("herding", 11)):
        for label in torch.unique(trained.new_labels).tolist():
            rows = trained.new_indices[trained.new_labels == label]
            kept = learned.memory.exemplars[label]
            assert torch.equal(kept, rows[herding_order(seen(state)[rows], len(kept))])


def test_a_generator_is_fixed_by_its_seed_and_purpose():
    def draw(*purpose):
        return torch.rand(4, generator=generator_for(*purpose)).tolist()

    assert draw(1, "order", 2) == draw(1, "order", 2)
    purposes = [(1, "order", 2), (2, "order", 2), (1, "order", 3), (1, "crop", 2), (1, "order", "2"), (1, "order")]
    assert len({tuple(draw(*purpose)) for purpose in purposes}) == len(purposes)


@pytest.mark.parametrize("select", ["random", "herding"])
def test_more_images_of_a_past_class_have_its_memory_reconsidered(select):
    """Rows 30 to 36 come as further images of class 1 beside the exemplars: the best of all of them stay."""
    before = learn(select, 11)[1][1]
    trained = train(2, before)
    more = ROWS[30:37]
    again = replace(
        trained,
        exemplar_indices=torch.cat([trained.exemplar_indices, more]),
        exemplar_labels=torch.cat([trained.exemplar_labels, torch.ones(7, dtype=torch.int64)]),
        features_ND=torch.cat([trained.features_ND, seen(2)[more]]),
    )
    plain, learned = (remember(one, before, select, 11, seed=0) for one in (trained, again))
    for c in (0, 2, 3, 4):
        assert torch.equal(learned.memory.exemplars[c], plain.memory.exemplars[c])
    candidates = torch.cat([before.memory.exemplars[1], more])
    kept = learned.memory.exemplars[1]
    assert set(kept.tolist()) <= set(candidates.tolist()) and len(kept) == len(plain.memory.exemplars[1])
    if select == "herding":
        assert torch.equal(kept, candidates[herding_order(seen(2)[candidates], len(kept))])
    for name in ("initial_weight_CD", "initial_bias_C", "first_state_C", "initial_score_C", "top_score_S"):
        assert torch.equal(getattr(learned.evidence, name), getattr(plain.evidence, name))
    assert learned.evidence.train_count_C[1] == plain.evidence.train_count_C[1] + 7
    assert torch.equal(learned.evidence.exemplar_features_ED, seen(2)[learned.memory.indices])


@few_places
@pytest.mark.parametrize("budget", [2, 11, 100])
def test_the_evidence_of_ones_own_trainings_is_the_learners(budget):
    """`evidence_of` gets layers, features and labels only, and comes to the same."""
    own, shown = [], []
    for trained, learned in learn("herding", budget):
        linear = trained.network.linear
        labels = torch.cat([trained.new_labels, trained.exemplar_labels])
        own.append((linear.weight.detach(), linear.bias.detach(), trained.features_ND, labels))
        rows = torch.cat([trained.new_indices, trained.exemplar_indices]).tolist()
        exemplars = torch.tensor([rows.index(row) for row in learned.memory.indices.tolist()], dtype=torch.int64)
        found = evidence_of(own, exemplars)
        shown.append(found)
        for name in TENSORS:
            torch.testing.assert_close(getattr(found, name), getattr(learned.evidence, name), msg=name)
    assert [one.state for one in shown] == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, b, f, y: (w[:, :2], b, f, y), r"weight is \(2, 2\), expected \(2, 3\)"),
        (lambda w, b, f, y: (w, b, f, y[:-1]), "4 features and 3 labels"),
        (lambda w, b, f, y: (w, b, f, y.float()), "labels as integers from 0 to 1"),
        (lambda w, b, f, y: (w, b, f, y + 1), "labels as integers from 0 to 1"),
        (lambda w, b, f, y: (w, b, f, y * 0), "no images of class 1"),
    ],
)
def test_what_cannot_be_a_state_is_an_error(change, message):
    state = (torch.eye(3)[:2], torch.zeros(2), torch.ones(4, 3), torch.tensor([0, 0, 1, 1]))
    assert evidence_of([state]).past == 0
    with pytest.raises(ValueError, match=message):
        evidence_of([change(*state)])
    with pytest.raises(ValueError, match="2 classes after 2; each state has new classes"):
        evidence_of([state, state])
    with pytest.raises(ValueError, match="no states"):
        evidence_of([])
