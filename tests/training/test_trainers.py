"""Losses, splits and trainers: numbers worked by hand, or by naive loops."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning_fabric import Fabric
from sklearn.svm import LinearSVC
from torch import nn

from scail.benchmark import incremental
from scail.benchmark.configuration import settle
from scail.benchmark.runner import run_experiment
from scail.benchmark.trajectory import trajectories_in
from scail.config import Schedule
from scail.config.recipes import quick
from scail.datasets.images.batches import Augmentation
from scail.exemplars import aside_places, exemplar_draw, places
from scail.methods import METHODS
from scail.networks.network import create_network
from scail.runtime.seeds import generator_for
from scail.storage.store import Store
from scail.training import Balanced, Bic, Distill, FineTune, FrozenSvm, Joint, Task, Trained
from scail.training.balanced import balanced_rows
from scail.training.bic import bias_aware_loss, held_out, learn_correction
from scail.training.distill import sigmoid_loss, sigmoid_targets
from scail.training.end_to_end import EndToEnd, distilled_cross_entropy
from scail.training.frozen_svm import GRID, choose_c
from scail.training.loop import fit
from scail.training.losses import teacher_of
from tests.training.test_losses import LN2, LN3, naive_distillation

FABRIC = Fabric(accelerator="cpu", devices=1)
SCHEDULE = Schedule(epochs=1, lr=0.05, batch_size=16, decay="cosine")
STILL = replace(SCHEDULE, lr=1e-12, weight_decay=0.0)  # nothing moves: what is left is how the layer began
JOINT = Joint("resnet8", SCHEDULE)


class Fixed(nn.Module):
    """A model that says the same of every batch."""

    def __init__(self, scores):
        super().__init__()
        self.scores = nn.Parameter(torch.as_tensor(scores, dtype=torch.float32))

    def forward(self, _images):
        return 1 * self.scores  # worked out, as by any model, so that its gradient can be told apart


def network_for(num_classes, seed=0):
    return create_network("resnet8", 1, num_classes, generator_for(seed, "test"))


def task_of(past, new, budget=0, previous=None, seed=0, **given):
    """A task with these numbers of exemplars of past classes and images of new ones, new ones first."""
    counts = torch.tensor([*new, *past])
    labels = torch.tensor([*range(len(past), len(past) + len(new)), *range(len(past))]).repeat_interleave(counts)
    images = torch.randint(0, 256, (len(labels), 1, 8, 8), dtype=torch.uint8, generator=generator_for(seed, "images"))
    task = Task(1 if past else 0, images, labels, len(counts), previous, Augmentation(0, mirror=False), seed, FABRIC)
    return replace(task, **{"past_classes": len(past), "budget": budget, **given})


@pytest.fixture
def fits(monkeypatch):
    """Instead of training, write down what would have been trained: network, task, schedule, loss, stage."""
    calls = []

    def fit(network, task, schedule, loss=None, stage="training"):
        calls.append(SimpleNamespace(network=network, task=task, schedule=schedule, loss=loss, stage=stage))

    for name in ("balanced", "bic", "distill"):
        monkeypatch.setattr(f"scail.training.{name}.fit", fit)
    return calls


# --- Losses of trainers


# One image of class 2, of which the teacher knows two classes. Softmax of (2 ln 3, 0, 2 ln 2) is (9, 1, 4) / 14:
# cross-entropy ln(14 / 4). On the past outputs (3, 1) / 4 against (1, 1) / 2: 2 ln 2 - 1/2 ln 3, as above.
STUDENT, TEACHER, IMAGE, LABEL = [[2 * LN3, 0.0, 2 * LN2]], [[0.0, 0.0]], torch.zeros(1), torch.tensor([2])
CLASSIFICATION, DISTILLATION = math.log(3.5), 2 * LN2 - 0.5 * LN3  # 1.25 and 0.84: neither weight can be taken away


def test_the_bias_aware_loss_weighs_distillation_by_the_share_of_past_classes():
    loss = bias_aware_loss(Fixed(TEACHER), 2 / 3, Fixed(STUDENT), IMAGE, LABEL)
    assert loss.item() == pytest.approx(2 / 3 * DISTILLATION + 1 / 3 * CLASSIFICATION)


def test_the_end_to_end_loss_is_classification_plus_distillation_on_the_past_outputs():
    loss = distilled_cross_entropy(Fixed(TEACHER), Fixed(STUDENT), IMAGE, LABEL)
    assert loss.item() == pytest.approx(CLASSIFICATION + DISTILLATION)


@pytest.mark.parametrize(
    "loss",
    [
        lambda teacher, student: distilled_cross_entropy(teacher, student, IMAGE, LABEL),
        lambda teacher, student: bias_aware_loss(teacher, 2 / 3, student, IMAGE, LABEL),
        lambda teacher, student: sigmoid_loss(teacher, 2, True, student, IMAGE, LABEL),
    ],
)
def test_no_gradient_flows_into_the_teacher(loss):
    teacher, student = Fixed(TEACHER), Fixed(STUDENT)
    loss(teacher, student).backward()
    assert teacher.scores.grad is None
    assert student.scores.grad.any()


# Two past classes, a new one, one still to come. Image 0 is of the new class, image 1 an exemplar of class 0.
LABELS = torch.tensor([2, 0])
BEFORE = torch.tensor([[0.0, LN3], [-LN3, 0.0]])  # sigmoids 1/2, 3/4 and 1/4, 1/2
TARGETS = [[0.5, 0.75, 1.0, 0.0], [0.25, 0.5, 0.0, 0.0]]  # the exemplar's own label is not among them: 1/4, not 1
SCORES = torch.tensor([[1.0, -2.0, 0.5, 3.0], [-0.5, 0.0, 2.0, -1.0]])


def test_past_outputs_learn_the_teachers_sigmoids_new_ones_the_labels_future_ones_nothing():
    targets = sigmoid_targets(SCORES, LABELS, BEFORE)
    torch.testing.assert_close(targets, torch.tensor(TARGETS))
    assert sigmoid_targets(SCORES, LABELS, None).tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]  # state 0: the labels


def naive_sigmoid_terms(scores, targets):
    """-t log p - (1 - t) log(1 - p) of every output: one sigmoid each, no softmax."""
    terms = []
    for row, wanted in zip(scores.tolist(), targets, strict=True):
        for score, t in zip(row, wanted, strict=True):
            p = 1 / (1 + math.exp(-score))
            terms.append(-t * math.log(p) - (1 - t) * math.log(1 - p))
    return terms


def test_with_a_known_future_the_loss_is_the_mean_over_all_outputs():
    terms = naive_sigmoid_terms(SCORES, TARGETS)
    # The teacher has outputs for the future too, and for the new class: they are not asked.
    teacher = Fixed(torch.cat([BEFORE, torch.tensor([[9.0, -9.0], [5.0, 7.0]])], 1))
    loss = sigmoid_loss(teacher, 2, True, Fixed(SCORES), torch.zeros(2), LABELS)
    assert loss.item() == pytest.approx(sum(terms) / 8, rel=1e-5)
    # Scores of zero: every output has the loss ln 2, whatever its target; so has the mean.
    assert sigmoid_loss(teacher, 2, True, Fixed(torch.zeros(2, 4)), torch.zeros(2), LABELS).item() == pytest.approx(LN2)


def test_what_the_teacher_says_can_be_softened():
    """At temperature 2 its scores count half; those of the network stay as they are."""
    soft = sigmoid_loss(Fixed(BEFORE), 2, True, Fixed(SCORES), torch.zeros(2), LABELS, temperature=2.0)
    halves = sigmoid_loss(Fixed(BEFORE / 2), 2, True, Fixed(SCORES), torch.zeros(2), LABELS)
    assert soft == halves != sigmoid_loss(Fixed(BEFORE), 2, True, Fixed(SCORES), torch.zeros(2), LABELS)
    recipe = quick("digits").recipe
    for asked, expected in (((0.0,), "temperature 0, expected a number above 0"), ((1.0, 2.0), "expected 1, as 1")):
        with pytest.raises(ValueError, match=expected):
            Distill.of(recipe, recipe.schedules.but([("distill", "distillation", asked)]), 10)


def test_with_an_unknown_future_the_loss_is_the_sum_over_seen_outputs_divided_by_100():
    seen = [row[:3] for row in TARGETS]
    terms = naive_sigmoid_terms(SCORES[:, :3], seen)
    loss = sigmoid_loss(Fixed(BEFORE), 2, False, Fixed(SCORES[:, :3]), torch.zeros(2), LABELS)
    assert loss.item() == pytest.approx(sum(terms) / (2 * 100), rel=1e-5)
    # With 3 seen outputs of 100 the two readings are the same training, where the other 97 outputs are silent.
    silent = torch.cat([SCORES[:, :3], torch.full((2, 97), -50.0)], 1)
    known = sigmoid_loss(Fixed(BEFORE), 2, True, Fixed(silent), torch.zeros(2), LABELS)
    assert loss.item() == pytest.approx(known.item(), rel=1e-5)


# --- Splits


def test_the_balanced_step_sees_as_many_images_of_every_class():
    # B = 7 for 2 past classes: 3 of each class. Rows: class 2 is 0..9, class 3 10, class 0 11..14, class 1 15..17.
    task = task_of(past=[4, 3], new=[10, 1], budget=7)
    rows = balanced_rows(task).tolist()
    assert [row for row in rows if row >= 11] == [11, 12, 13, 15, 16, 17]  # the best, which stand first
    assert 10 in rows  # a class with fewer images gives what it has
    drawn = [row for row in rows if row < 10]
    assert len(set(drawn)) == 3 and len(rows) == 10
    assert balanced_rows(task).tolist() == rows
    others = {tuple(sorted(balanced_rows(replace(task, seed=seed))[6:9].tolist())) for seed in range(5)}
    assert len(others) > 1  # drawn by the seed, not the first ones


def test_the_balanced_step_sees_at_least_one_image_of_a_class():
    # B = 2 for 3 past classes, of which the last has no exemplar
    rows = balanced_rows(task_of(past=[1, 1, 0], new=[5, 5], budget=2))
    assert task_of(past=[1, 1, 0], new=[5, 5]).labels[rows].tolist() == [0, 1, 3, 4]


def sizes_held_out(task):
    return torch.bincount(task.labels[held_out(task)[1]], minlength=task.num_classes).tolist()


def test_a_tenth_of_the_exemplars_is_held_out_and_as_many_of_new_classes():
    # ceil(1.1) = 2 and ceil(1.0) = 1; two new classes give as many as past ones on average: 2 * 5 / 3, rounded
    assert sizes_held_out(task_of(past=[11, 11, 10], new=[20, 15], budget=32)) == [2, 2, 1, 2, 1]
    assert sizes_held_out(task_of(past=[35, 34], new=[50], budget=69)) == [4, 4, 4]
    # a class with a single exemplar, or a single image, keeps it for training
    assert sizes_held_out(task_of(past=[11, 1, 0], new=[20, 1], budget=32)) == [2, 0, 0, 1, 0]
    assert sizes_held_out(task_of(past=[11, 1, 0], new=[1, 20], budget=32)) == [2, 0, 0, 0, 1]
    # a new class keeps at least half of its images
    assert sizes_held_out(task_of(past=[80, 80], new=[6], budget=160)) == [8, 8, 3]
    # where few have two, these are held out; the new classes give one in all, since none would say nothing of them
    assert sizes_held_out(task_of(past=[2, 1, 1, 1, 1], new=[20, 20], budget=6)) == [1, 0, 0, 0, 0, 1, 0]


def test_an_exemplar_that_is_held_out_stays_so_as_the_memory_shrinks():
    # Otherwise a later state would train on what an earlier one held out, or hold out what the network has learned.
    def positions(exemplars):
        task = task_of(past=[exemplars], new=[5], budget=exemplars)
        return [row - 5 for row in held_out(task)[1].tolist() if row >= 5]

    most = positions(45)
    assert all(positions(fewer) == [p for p in most if p < fewer] for fewer in range(1, 45))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 60), st.integers(1, 3), st.integers(0, 3))
def test_no_image_is_both_trained_on_and_held_out_and_none_is_lost(past, budget, new, seed):
    task = task_of(past=places(budget, past), new=[40] * new, budget=budget, seed=seed)
    kept, away = (rows.tolist() for rows in held_out(task))
    assert sorted(kept + away) == list(range(len(task.labels)))
    assert kept == sorted(kept)  # best first, as they were
    for label, exemplars in enumerate(places(budget, past)):
        mine = [row for row in away if task.labels[row] == label]
        assert len(mine) == (0 if exemplars < 2 else -(-exemplars // 10))
    # Held-out exemplars count in B: none comes from elsewhere.
    assert sum(task.labels[row] < past for row in kept + away) == budget


def test_which_new_images_are_held_out_follows_from_the_seed():
    task = task_of(past=[30, 30], new=[50], budget=60)
    assert torch.equal(held_out(task)[1], held_out(task)[1])
    assert not torch.equal(held_out(task)[1], held_out(replace(task, seed=1))[1])


@pytest.mark.parametrize(
    ("past", "budget"),
    [
        ([2, 1], 3),  # most past classes have one exemplar, some have two
        ([1, 1], 20),  # places are empty: the past classes never had more images
    ],
)
def test_the_held_out_set_is_balanced_between_past_and_new_classes(past, budget):
    """On images of one side alone a correction would run away: there is none."""
    task = task_of(past, [20, 20], budget)
    *of_past, one, other = sizes_held_out(task)
    found = Bic(JOINT, SCHEDULE, STAGE2).complete(trained_on(task, biased_scores(task.labels, 4, past=2)), task)
    assert ((found["alpha"], found["beta"]) == (1, 0)) == (sum(of_past) == 0 or one + other == 0)


# --- BiC


STAGE2 = Schedule(epochs=300, lr=0.5, batch_size=1000, weight_decay=0.0, decay="cosine")


def biased_scores(labels, num_classes, past, seed=0):
    """Scores with as much noise as they should have, but those of new classes are too large: alpha 0.4, beta -0.6."""
    scores = torch.randn(len(labels), num_classes, generator=torch.Generator().manual_seed(seed))
    scores += nn.functional.one_hot(labels, num_classes)
    scores[:, past:] = 2.5 * scores[:, past:] + 1.5
    return scores


def best_correction(scores, labels, past, penalty=0.1):
    """alpha and beta by Newton's method, from the cross-entropy written out."""
    at = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([at], max_iter=200, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        exponentials = torch.stack(
            [scores[:, c].double() * (at[0] if c >= past else 1) + (at[1] if c >= past else 0) for c in range(4)], 1
        ).exp()
        own = exponentials[torch.arange(len(labels)), labels]
        mean = -(own / exponentials.sum(1)).log().mean() + penalty * at[1] ** 2 / 2
        mean.backward()
        return mean

    optimizer.step(loss)
    return at.tolist()


def test_the_correction_minimises_the_cross_entropy_with_a_penalty_on_beta_over_alpha_and_beta_of_the_newest_scores():
    labels = torch.arange(200) % 4
    scores = biased_scores(labels, 4, past=2)
    alpha, beta = learn_correction(scores, labels, 2, STAGE2, seed=0, state=1)
    expected = best_correction(scores, labels, 2)
    assert [alpha.item(), beta.item()] == pytest.approx(expected, abs=1e-3)
    freely = best_correction(scores, labels, 2, penalty=0.0)
    assert freely == pytest.approx([0.4, -0.6], abs=0.3)  # about the bias that was put in, from 200 noisy images
    assert abs(expected[1]) < abs(freely[1])
    assert best_correction(scores, labels, 3) != pytest.approx(expected, abs=0.1)  # which classes are new matters


def trained_on(task, scores):
    """What a training could have left: features that are the scores themselves, and a layer that hands them on."""
    linear = nn.utils.skip_init(nn.Linear, scores.shape[1], scores.shape[1])
    with torch.no_grad():
        linear.weight.copy_(torch.eye(scores.shape[1]))
        linear.bias.zero_()
    is_new = task.labels >= task.past_classes
    rows = torch.arange(len(task.labels))
    return Trained(
        SimpleNamespace(linear=linear), rows[is_new], task.labels[is_new], rows[~is_new], task.labels[~is_new], scores
    )


def test_the_correction_is_learned_on_the_held_out_images_alone():
    task = task_of(past=[100, 100], new=[100, 100], budget=200)
    kept, away = held_out(task)
    scores = biased_scores(task.labels, 4, past=2)
    scores[kept] = 100 * torch.randn(len(kept), 4, generator=torch.Generator().manual_seed(1))  # nobody may look here
    found = Bic(JOINT, SCHEDULE, STAGE2).complete(trained_on(task, scores), task)
    expected = best_correction(scores[away], task.labels[away], 2)
    assert [found["alpha"].item(), found["beta"].item()] == pytest.approx(expected, abs=1e-3)
    assert found["newest"].tolist() == [2, 4]


@pytest.mark.parametrize("select", ["herding", "random"])
def test_what_bic_holds_out_of_a_class_is_never_trained_on_in_any_state(select, tiny, tmp_path):
    """Through three states: what is set aside when a class is new stays in memory, at its places, and held out."""
    (trajectory,) = trajectories_in(settle(tiny.but(methods=("bic",), select=(select,), memory=16)))
    seen, aside = set(), {}
    for step, task, rows in walked(trajectory, tmp_path):
        kept, away = held_out(task)
        seen |= set(rows[kept].tolist())
        assert not seen & set(rows[away].tolist())
        aside |= dict.fromkeys(rows[away].tolist())
        for exemplars in step.learned.memory.exemplars:
            at = exemplars[aside_places(len(exemplars))]
            assert set(at.tolist()) <= aside.keys() and not seen & set(at.tolist())
            assert len(exemplars) < 2 or len(at) > 0
    assert len(step.learned.memory) == 16


def walked(trajectory, place):
    """Each state of a trajectory, with its task, and where the task's images stand in the data set."""
    before = torch.empty(0, dtype=torch.int64)
    for step in incremental.steps_of(trajectory, Store(place), FABRIC, incremental.Watch()):
        rows = torch.cat([step.state.train_indices, before])
        labels = trajectory_labels(trajectory, step.state, rows)
        past = step.state.past_classes
        task = Task(
            step.state.index, torch.zeros(len(rows), 1, 8, 8, dtype=torch.uint8), labels, step.state.num_classes, None,
            Augmentation(0), trajectory.configuration.experiment.seed, FABRIC, past_classes=past,
            budget=trajectory.memory,
        )  # fmt: skip
        yield step, task, rows
        before = step.learned.memory.indices


def trajectory_labels(trajectory, state, rows):
    """The labels of these images, by arrival."""
    found = dict[int, int]()
    for one in trajectory.states[: state.index + 1]:
        found |= dict(zip(one.train_indices.tolist(), one.train_labels.tolist(), strict=True))
    return torch.tensor([found[row] for row in rows.tolist()])


def test_there_is_nothing_to_correct_in_state_0():
    task = task_of(past=[], new=[20, 20], budget=20)
    found = Bic(JOINT, SCHEDULE, STAGE2).complete(trained_on(task, biased_scores(task.labels, 2, past=0)), task)
    assert (found["alpha"], found["beta"], found["newest"].tolist()) == (1, 0, [0, 2])


def test_there_is_no_correction_where_nothing_can_be_held_out():
    task = task_of(past=[1, 1], new=[20, 20], budget=2)
    assert sizes_held_out(task) == [0, 0, 0, 0]
    found = Bic(JOINT, SCHEDULE, STAGE2).complete(trained_on(task, biased_scores(task.labels, 4, past=2)), task)
    assert (found["alpha"], found["beta"]) == (1, 0)


def test_there_is_no_correction_from_past_classes_alone():
    task = task_of(past=[9, 9], new=[1, 1], budget=18)
    assert sizes_held_out(task) == [1, 1, 0, 0]
    found = Bic(JOINT, SCHEDULE, STAGE2).complete(trained_on(task, biased_scores(task.labels, 4, past=2)), task)
    assert (found["alpha"], found["beta"]) == (1, 0)


@pytest.mark.parametrize(("memory", "methods", "said"), [(4, "bic", True), (5, "bic", False), (4, "ft_bal", False)])
def test_a_note_says_that_nothing_can_be_held_out(tiny, memory, methods, said):
    # The last state has 4 past classes: with 4 exemplars each has one, with 5 the first has two.
    notes = settle(tiny.but(memory=memory, methods=(methods,))).notes
    assert any("BiC" in note and "held out" in note for note in notes) == said


def test_bic_distils_from_the_previous_network_with_its_correction_and_without_the_held_out_images(fits):
    # Classes 0, 1, 2 are past; 1 and 2 were new in the previous state, which left alpha 2 and beta -3 for them.
    previous = network_for(3)
    before = {name: value.clone() for name, value in previous.state_dict().items()}
    carried = {"alpha": torch.tensor(2.0), "beta": torch.tensor(-3.0), "newest": torch.tensor([1, 3])}
    task = task_of([10, 10, 10], [20], budget=30, previous=previous, state=2, carried=carried)
    Bic(JOINT, SCHEDULE, STAGE2).train(task)
    (stage1,) = fits
    assert torch.equal(stage1.task.images, task.images[held_out(task)[0]])
    assert stage1.schedule == SCHEDULE

    images, labels = task.images[:6], task.labels[:6]
    teacher = teacher_of(previous)(images)
    corrected = torch.stack([teacher[:, 0], 2 * teacher[:, 1] - 3, 2 * teacher[:, 2] - 3], 1)
    student = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    classification = nn.functional.cross_entropy(student, labels).item()
    expected = 3 / 4 * naive_distillation(student[:, :3], corrected) + 1 / 4 * classification  # 3 of 4 classes are past
    assert stage1.loss(Fixed(student), images, labels).item() == pytest.approx(expected, rel=1e-5)
    # The student goes on from the layer as it was, without the correction; nothing happens to the previous network.
    assert torch.equal(stage1.network.linear.weight[:3], previous.linear.weight)
    assert all(torch.equal(previous.state_dict()[name], value) for name, value in before.items())


def test_weight_decay_can_fall_from_state_to_state_as_in_bics_public_code():
    # A loss without a gradient leaves the decay alone: in state 1 of Z = 4 one step takes 0.1 * 0.01 * 4 / 2 of w away.
    network = network_for(2)
    before = network.linear.weight.detach().clone()
    schedule = replace(SCHEDULE, lr=0.1, batch_size=64, weight_decay=0.01, weight_decay_states=4)
    fit(network, task_of([5], [9]), schedule, lambda model, images, labels: 0 * model(images).sum())
    torch.testing.assert_close(network.linear.weight.detach(), before * (1 - 0.002))


# --- DeeSIL


def unit_features(labels, num_classes, seed):
    draw = torch.Generator().manual_seed(seed)
    means = torch.randn(num_classes, 5, generator=torch.Generator().manual_seed(99))
    features = means[labels] + 0.6 * torch.randn(len(labels), 5, generator=draw)
    return features * (1 + 9 * torch.rand(len(labels), 1, generator=draw))  # lengths mean nothing


def svm_of(features, labels, label, c):
    unit = features.double() / features.double().norm(dim=1, keepdim=True)
    svm = LinearSVC(C=c, dual=False).fit(unit.numpy(), labels.numpy() == label)
    return torch.tensor([*svm.coef_[0], *svm.intercept_]).float()


def test_svms_are_learned_when_a_class_is_new_and_kept_ever_after():
    trainer, carried = FrozenSvm(JOINT), {}
    for state, (past, new) in enumerate([([], [20, 20]), ([6, 6], [20, 20]), ([3, 3, 3, 3], [20])]):
        task = task_of(past, new, budget=12, state=state, carried=carried)
        features = unit_features(task.labels, 5, seed=state)
        found = trainer.complete(replace(trained_on(task, features), features_ND=features), task)
        rows = torch.cat([found["svm_weight"], found["svm_bias"][:, None]], 1)
        assert len(rows) == len(past) + len(new)
        for label in range(len(past), len(rows)):
            torch.testing.assert_close(rows[label], svm_of(features, task.labels, label, float(found["c"])))
        if past:
            assert torch.equal(found["svm_weight"][: len(past)], carried["svm_weight"])
            assert torch.equal(found["svm_bias"][: len(past)], carried["svm_bias"])
            assert torch.equal(found["c"], carried["c"])
        carried = found


def test_few_negatives_are_what_random_selection_keeps_of_every_class():
    """B = 7. State 0, three classes: 3, 2 and 2 places, drawn. State 1, five classes: 2, 2, 1, 1 and 1; of past classes
    their best exemplars, which stand behind the new images."""
    few = FrozenSvm(JOINT, few_negatives=True)
    first = task_of([], [5, 5, 5], budget=7)
    drawn = [torch.randperm(5, generator=exemplar_draw(0, label))[:n] + 5 * label for label, n in enumerate([3, 2, 2])]
    assert few.negatives(first).nonzero()[0].tolist() == torch.cat(drawn).sort().values.tolist()
    later = task_of([3, 2, 2], [4, 4], budget=7)
    new = [int(torch.randperm(4, generator=exemplar_draw(0, 3 + n))[0]) + 4 * n for n in range(2)]
    assert few.negatives(later).nonzero()[0].tolist() == [*new, 8, 9, 11, 12, 13]
    assert few.negatives(replace(later, budget=0)) is None is FrozenSvm(JOINT).negatives(later)


def test_with_few_negatives_a_class_learns_from_all_its_images_and_from_those_of_others():
    trainer, carried = FrozenSvm(JOINT, few_negatives=True), {}
    for state, (past, new) in enumerate([([], [20, 20]), ([6, 6], [20, 20])]):
        task = task_of(past, new, budget=12, state=state, carried=carried)
        features = unit_features(task.labels, 4, seed=state)
        found = trainer.complete(trained_on(task, features), task)
        rows = torch.cat([found["svm_weight"], found["svm_bias"][:, None]], 1)
        pool = torch.from_numpy(trainer.negatives(task))
        assert pool.sum() == 12
        for label in range(len(past), len(rows)):
            at = pool | (task.labels == label)
            expected = svm_of(features[at], task.labels[at], label, float(found["c"]))
            torch.testing.assert_close(rows[label], expected)
            assert (expected - svm_of(features, task.labels, label, float(found["c"]))).abs().max() > 1e-3
        carried = found


def test_a_memory_without_another_class_gives_no_negatives():
    task = task_of([], [20, 20], budget=1)
    with pytest.raises(ValueError, match="the memory has no image of another class; give it more places"):
        FrozenSvm(JOINT, few_negatives=True).complete(trained_on(task, unit_features(task.labels, 2, 0)), task)


def test_with_few_negatives_svms_of_state_0_belong_to_one_memory(tiny, tmp_path):
    """The network of state 0 is the same for all; what its SVMs learn from is not."""

    def rows_of(store, **changed):
        experiment = tiny.but(methods=("deesil",), states=2, **changed)
        return [row.scores for row in run_experiment(experiment, tmp_path / "run", store=tmp_path / store).rows]

    few = {memory: rows_of("shared", memory=memory, few_negatives=True) for memory in (6, 24)}
    assert few[6][0] != few[24][0] and rows_of("own", memory=24, few_negatives=True) == few[24]
    assert rows_of("shared", memory=24) not in few.values()


def test_c_comes_from_state_0_whatever_would_suit_later_states():
    task = task_of([6, 6], [20, 20], budget=12)
    features = unit_features(task.labels, 4, seed=0)
    carried = {
        "svm_weight": torch.zeros(2, 5), "svm_bias": torch.zeros(2), "c": torch.tensor(0.037, dtype=torch.float64),
    }  # fmt: skip
    found = FrozenSvm(JOINT).complete(trained_on(task, features), replace(task, carried=carried))
    expected = svm_of(features, task.labels, 3, 0.037)
    torch.testing.assert_close(torch.cat([found["svm_weight"][3], found["svm_bias"][3:]]), expected)
    assert found["c"] == carried["c"]


@pytest.mark.parametrize(("seed", "best"), [(7, 1.0), (9, 1000.0)])  # one is best; several are, from 0.01 on
def test_c_is_the_largest_of_the_best_on_a_tenth_of_state_0(seed, best):
    labels = torch.tensor([0] * 90 + [1] * 15 + [2] * 15)
    features = unit_features(labels, 3, seed)
    order = torch.randperm(120, generator=generator_for(0, "choose C"))
    away, rest = order[:12], order[12:]
    unit = nn.functional.normalize(features.double())
    accuracy = []
    for c in GRID:
        rows = torch.stack([svm_of(features[rest], labels[rest], label, c) for label in range(3)]).double()
        accuracy.append(((unit[away] @ rows[:, :5].T + rows[:, 5]).argmax(1) == labels[away]).double().mean().item())
    assert best == max(c for c, a in zip(GRID, accuracy, strict=True) if a == max(accuracy))
    assert choose_c(unit.numpy(), labels.numpy(), seed=0) == best


def test_the_network_of_deesil_stays_as_it_was_in_state_0():
    first = network_for(2)
    second = FrozenSvm(JOINT).train(task_of([5, 5], [9, 9], 10, first))
    third = FrozenSvm(JOINT).train(task_of([2, 2, 2, 2], [9], 10, second, state=2))
    for name, value in first.state_dict().items():
        if not name.startswith("linear."):
            assert torch.equal(second.state_dict()[name], value) and torch.equal(third.state_dict()[name], value)


# --- Balanced and Distill


def test_the_balanced_step_goes_on_with_the_same_network_on_balanced_images(fits):
    task = task_of([6, 5], [20, 20], budget=11, previous=network_for(2))
    step = replace(SCHEDULE, lr=0.003)
    result = Balanced(FineTune(JOINT, SCHEDULE), step).train(task)
    everything, balanced = fits
    assert everything.network is balanced.network is result
    assert torch.equal(everything.task.images, task.images)
    assert torch.equal(balanced.task.images, task.images[balanced_rows(task)])
    assert torch.bincount(balanced.task.labels).tolist() == [5, 5, 5, 5]
    assert (everything.schedule, balanced.schedule) == (SCHEDULE, step)
    assert everything.stage != balanced.stage  # other batches, other checkpoints


@pytest.mark.parametrize("distill", [True, False])
def test_end_to_end_distils_in_both_steps_and_ft_bal_in_neither(fits, distill):
    previous = network_for(2)
    task = task_of([6, 5], [20, 20], budget=11, previous=previous)
    (EndToEnd if distill else Balanced)(FineTune(JOINT, SCHEDULE), SCHEDULE).train(task)
    images, labels = task.images[:6], task.labels[:6]
    student = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    expected = nn.functional.cross_entropy(student, labels).item()
    if distill:
        expected += naive_distillation(student[:, :2], teacher_of(previous)(images))
    assert [call.loss(Fixed(student), images, labels).item() for call in fits] == pytest.approx([expected] * 2)


@pytest.mark.parametrize("total_classes", [5, None])
def test_distill_learns_from_the_previous_networks_sigmoids(fits, total_classes):
    previous = network_for(total_classes or 2)
    task = task_of([6, 5], [20, 20], budget=11, previous=previous)
    Distill("resnet8", SCHEDULE, total_classes).train(task)
    (call,) = fits
    images, labels = task.images[-12:], task.labels[-12:]  # exemplars, and one image of class 3
    assert labels.tolist() == [3] + [0] * 6 + [1] * 5
    targets = torch.zeros(12, total_classes or 4)
    targets[:, :2] = teacher_of(previous)(images)[:, :2].sigmoid()
    targets[0, 3] = 1
    student = torch.randn(targets.shape, generator=torch.Generator().manual_seed(0))
    terms = naive_sigmoid_terms(student, targets.tolist())
    expected = sum(terms) / (12 * 5 if total_classes else 12 * 100)
    assert call.loss(Fixed(student), images, labels).item() == pytest.approx(expected, rel=1e-5)


def test_with_an_unknown_future_the_layer_grows_and_keeps_its_rows():
    trainer = Distill("resnet8", STILL, total_classes=None)
    first = trainer.train(task_of([], [9, 9]))
    second = trainer.train(task_of([5, 5], [9], 10, first))
    assert (first.linear.out_features, second.linear.out_features) == (2, 3)
    torch.testing.assert_close(second.linear.weight[:2], first.linear.weight)
    torch.testing.assert_close(second.linear.bias[:2], first.linear.bias)


def test_trainers_that_begin_alike_share_state_0():
    fine_tune = FineTune(JOINT, SCHEDULE)
    alike = [fine_tune, FrozenSvm(JOINT)]
    alike += [Balanced(fine_tune, SCHEDULE), EndToEnd(replace(fine_tune, keep_past_rows=True), STILL)]
    assert all(trainer.settings(0) == JOINT.settings(0) for trainer in alike)
    others = [Distill("resnet8", SCHEDULE, 4), Bic(JOINT, SCHEDULE, STAGE2)]  # BiC holds images out in state 0, too
    assert all(trainer.settings(0) != JOINT.settings(0) for trainer in others)
    later = [trainer.settings(1) for trainer in (*alike, *others)]
    assert all(one != other for i, one in enumerate(later) for other in later[:i])
    # What decides a later state is in its settings: both stages, both steps.
    for trainer in (*alike[2:], others[1]):
        name = "correction" if isinstance(trainer, Bic) else "schedule"
        assert replace(trainer, **{name: replace(SCHEDULE, lr=0.5)}).settings(1) != trainer.settings(1)


# --- Whole experiments


@pytest.fixture(scope="module")
def measured(tiny, tmp_path_factory):
    """Every trainer once, into a store of its own."""
    place = tmp_path_factory.mktemp("trainers")
    one_each = ("ft", "ft_bal", "icarl", "lwf", "bic", "deesil", "e2e", "ft_nomem", "full")
    results = run_experiment(tiny.but(methods=one_each), place / "run", store=place / "store", jobs=1)
    return SimpleNamespace(rows=results.rows, store=place / "store")


def steps_of(method, experiment, store, select="random"):
    """The states of a method's trajectory, from the store: nothing is trained."""
    found = trajectories_in(settle(experiment.but(methods=(method,))))
    trajectory = next(one for one in found if one.select == select)
    steps = list(incremental.steps_of(trajectory, Store(store), FABRIC, incremental.Watch()))
    assert sum(step.trained_epochs for step in steps) == 0
    return steps


def test_lwf_is_ft_distill_without_a_memory(tiny, measured, tmp_path):
    # LwF has no memory even where the others have one; here ft_distill has none either, and trains by itself.
    without = tiny.but(memory=0, methods=("ft_distill",))
    distilled = run_experiment(without, tmp_path / "run", store=tmp_path / "store", jobs=1).rows
    lwf = [row for row in measured.rows if row.method == "lwf"]
    compared = ("state", "select", "memory", "exemplars", "top1", "top5", "errors", "past_errors_by_origin", "scores")
    assert len(lwf) == 3
    assert [[getattr(row, name) for name in compared] for row in distilled] == [
        [getattr(row, name) for name in compared] for row in lwf
    ]
    # and with a memory it is something else
    assert [row.scores for row in measured.rows if row.method == "icarl"] != [row.scores for row in lwf]


def test_a_layer_for_the_future_is_never_shown_to_a_head(tiny, measured):
    steps = steps_of("icarl", tiny, measured.store, "herding")
    assert [step.learned.network.linear.out_features for step in steps] == [6, 6, 6]
    for step, seen in zip(steps, (2, 4, 6), strict=True):
        evidence, linear = step.learned.evidence, step.learned.network.linear
        assert torch.equal(evidence.weight_CD, linear.weight[:seen])
        assert len(evidence.bias_C) == len(evidence.initial_bias_C) == len(evidence.train_count_C) == seen


def test_the_balanced_trajectory_shares_state_0_with_ft_and_then_goes_its_own_way(tiny, measured):
    plain, balanced = (steps_of(method, tiny, measured.store) for method in ("ft", "ft_bal"))
    assert [a.key == b.key for a, b in zip(plain, balanced, strict=True)] == [True, False, False]
    store = Store(measured.store)
    # State 2 starts from the balanced state 1, not from the step before it nor from FT's.
    assert store.load(balanced[2].key).facts["made_from"]["previous"] == balanced[1].key
    for a, b in zip(plain[1:], balanced[1:], strict=True):
        assert not torch.equal(a.learned.network.linear.weight, b.learned.network.linear.weight)
        assert store.load(b.key).facts["epochs"] == 2 and store.load(a.key).facts["epochs"] == 1


def test_state_0_is_trained_once_for_all_trainers_that_begin_alike(measured):
    facts = [entry.facts for entry in Store(measured.store).listing()]
    first = [f for f in facts if f["state"] == 0 and f.get("kind") is None]
    trained = sorted((f["made_from"]["trainer"]["trainer"], f["classes"]) for f in first)
    assert trained == [("bic", 2), ("distill", 2), ("joint", 2), ("joint", 6)]  # Full is the one with all classes
    of = {row.method: row.scores for row in measured.rows if row.state == 0}
    assert of["ft"] == of["ft_bal"] == of["e2e"] == of["ft_nomem"]


def test_the_backbone_of_deesil_is_the_same_to_the_bit_in_all_states(tiny, measured):
    first, *later = (step.learned for step in steps_of("deesil", tiny, measured.store))
    for learned in later:
        for name, value in first.network.backbone.state_dict().items():
            assert torch.equal(learned.network.backbone.state_dict()[name], value)
        assert torch.equal(learned.carried["svm_weight"][:2], first.carried["svm_weight"])
        assert torch.equal(learned.carried["c"], first.carried["c"])


def test_no_two_trainers_give_the_same_numbers(measured):
    incremental = [row for row in measured.rows if row.state > 0]
    assert {row.trainer for row in incremental} == {"fine_tune", "balanced", "e2e", "distill", "bic", "frozen_svm"}
    for i, row in enumerate(incremental):
        for other in incremental[:i]:
            if row.state == other.state and row.trainer != other.trainer:
                assert row.scores != other.scores, f"{row.method} and {other.method} in state {row.state}"


# --- Which trajectories the methods need


def places_by_method(experiment):
    """For each method, the selections and memories of the trajectories that it is read from."""
    found = {}
    for one in trajectories_in(settle(experiment)):
        for method in one.methods:
            assert METHODS[method].trainer == one.trainer
            found.setdefault(method, []).append((one.select, one.memory))
    return {method: tuple(sorted(places, key=str)) for method, places in found.items()}


FT_HEADS = {
    "ft", "ft_nem", "ft_l2", "ft_init", "ft_init_l2", "scail", "ft_wa", "prior", "tau_norm", "il2m", "siw", "siw_mc",
    "ft_slda", "ft_ridge", "duet",
}  # fmt: skip
WITHOUT_MEMORY = (
    "lwf",
    "ft_nomem",
    "full",
    "ncm",
    "slda",
    "ridge",
    "ranpac",
    "fetril",
    "fearnet",
    "packnet",
    "progressive",
    "lwf_softmax",
)  # or the same with any
THE_FIELD = ("lucir", "lucir_mc", "wa", "podnet", "threshold_moving", "der", "der_pruned", "m2kd", "generative_replay")
RANDOM, HERDING, NONE = ("random", 12), ("herding", 12), (None, 0)


def test_every_method_has_the_selection_of_its_own_paper_and_ft_both(tiny):
    expected = dict.fromkeys(FT_HEADS, (HERDING, RANDOM))
    expected |= dict.fromkeys(("ft_bal", "deesil", "er", "gdumb", "growing_brain"), (RANDOM,))
    expected |= dict.fromkeys(("icarl", "ft_distill", "icarl_duet", "bic", "e2e", *THE_FIELD), (HERDING,))
    expected |= dict.fromkeys(WITHOUT_MEMORY, (NONE,))
    assert places_by_method(tiny) == expected


def test_a_selection_that_is_asked_for_holds_for_every_method_with_a_memory(tiny):
    expected = dict.fromkeys(METHODS, (RANDOM,)) | dict.fromkeys(WITHOUT_MEMORY, (NONE,))
    assert places_by_method(tiny.but(select=("random",))) == expected
    both = places_by_method(tiny.but(select=("random", "herding")))
    assert both["bic"] == both["ft"] == (HERDING, RANDOM)


def test_without_a_memory_there_is_one_trajectory_per_trainer_and_none_that_needs_exemplars(tiny):
    found = places_by_method(tiny.but(memory=0))
    left_out = {"ft_nem", "ft_bal", "icarl", "bic", "e2e", "ft_slda", "ft_ridge", "duet", "icarl_duet", "er", "gdumb"}
    assert set(METHODS) - set(found) == left_out | set(THE_FIELD) - {"threshold_moving", "m2kd", "generative_replay"}
    assert all(places == (NONE,) for places in found.values())
    trainers = [one.trainer for one in trajectories_in(settle(tiny.but(memory=0)))]
    assert sorted(trainers) == [
        *("distill", "fearnet", "fine_tune", "frozen", "frozen_random", "frozen_svm", "generative_replay"),
        *("growing_brain", "joint", "lwf_softmax", "m2kd", "packnet", "progressive", "threshold_moving"),
    ]
