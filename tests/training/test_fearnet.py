"""FearNet: its two memories and the gate by hand; what goes over, what is dreamt up, what is forgotten."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from scail.config import Schedule
from scail.config.recipes import quick
from scail.networks.network import extract_features, network_from
from scail.networks.two_memories import Sizes, two_memories
from scail.runtime.seeds import generator_for
from scail.training import Fearnet, Frozen, Interrupted, TrainingDiverged, trainer_of
from scail.training.consolidation import check_spread, long_memory_loss
from tests.training.test_trainers import JOINT, task_of

MEMORY = Schedule(epochs=3, lr=2e-3, batch_size=16, decay="steps")
TRAINER = Fearnet(Frozen(JOINT), MEMORY, MEMORY)


@pytest.fixture(scope="module")
def states():
    """Tasks and networks of three states: two classes, then one more, then two more."""
    found, previous = [], None
    for past, new in ((0, [9, 8]), (2, [7]), (3, [6, 4])):
        task = task_of([0] * past, new, previous=previous, seed=past, state=len(found))
        previous = TRAINER.train(task).eval()
        found.append((task, previous))
    return found


def by_hand():
    """Two numbers in; a long memory of two classes whose code is twice the input; two recent classes, two vectors."""
    memories = two_memories(nn.Flatten(), Sizes(2, 2, 2, 2, 2, 2))
    eye = torch.eye(2)
    with torch.no_grad():
        for part in (memories.encoder, memories.decoder):
            for layer, weight in ((part[0], eye), (part[2], 2 * eye)):
                layer.weight.copy_(weight)
                layer.bias.zero_()
        memories.classifier.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        memories.classifier.bias.zero_()
        for at, (weight, bias) in enumerate(((torch.zeros(2, 2), 0.0), (torch.zeros(1, 2), math.log(3)))):
            memories.gate[2 * at].weight.copy_(weight)
            memories.gate[2 * at].bias.fill_(bias)
        vectors = torch.tensor([[3.0, 4.0], [9.0, 9.0], [0.0, 10.0], [0.0, 10.0]])
        memories.recent.weight.copy_(vectors)
        memories.recent.bias.copy_(-(vectors**2).sum(1) / 2)
    memories.count_R.copy_(torch.tensor([2, 1]))
    return memories


def test_what_each_class_is_worth():
    # At the origin: codes (0, 0), a half for each class of the long memory. The nearest recent vectors are 5 and 10
    # away: shares 2/3 and 1/3. The gate says 3 to 1 for recent.
    found = by_hand()(torch.zeros(1, 1, 1, 2)).exp()
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.5, 3 * 2 / 3, 3 / 3]]), rtol=1e-3, atol=1e-3)
    # At (1, 0) the code is (2, 0), and probabilities are as e^2 to 1.
    found = by_hand()(torch.tensor([[[[1.0, 0.0]]]]))
    assert (found[0, 0] - found[0, 1]).item() == pytest.approx(2)


def test_the_loss_of_the_long_memory():
    # x = (1, 0): hidden (1, 0), code (2, 0), scores (2, 0); decoded hidden (2, 0), decoded (4, 0).
    loss = long_memory_loss(by_hand(), (0.5, 0.1), torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)) + 0.5 * 9 / 2 + 0.1 * 1 / 2)


def test_features_are_dreamt_up_from_mean_and_covariance():
    memories = by_hand()
    memories.mean_ML.copy_(torch.tensor([[5.0, 7.0], [9.0, 9.0]]))
    memories.covariance_MLL.zero_()
    # No spread: the code (5, 7) itself, decoded.
    assert memories.decoded(0, 2, generator_for(0, "dream")).tolist() == [[10, 14]] * 2
    memories.covariance_MLL[0] = torch.tensor([[0.04, 0.03], [0.03, 0.04]])
    found = memories.decoded(0, 4000, generator_for(0, "dream")) / 2
    torch.testing.assert_close(found.T.cov(), memories.covariance_MLL[0], rtol=0, atol=0.004)


def test_new_classes_are_recent_until_the_next_state(states):
    sizes = [network.backbone.sizes for _, network in states]
    assert [(of.long, of.recent, of.vectors) for of in sizes] == [(2, 0, 0), (2, 1, 7), (3, 2, 6)]
    for task, network in states:
        features = extract_features(network, task.images)
        assert features.shape[1] == network.feature_size == task.num_classes == network.linear.out_features
        assert torch.equal(network.linear.weight, torch.eye(task.num_classes))
        recent = task.labels >= task.num_classes - network.backbone.sizes.recent
        # A recent image is one of the vectors: among recent classes it is worth most.
        if not recent.any():
            continue
        found = features[recent][:, network.backbone.sizes.long :].argmax(1) + network.backbone.sizes.long
        assert torch.equal(found, task.labels[recent])
    (_, first), _, (task, last) = states
    assert last.backbone.count_R.tolist() == [6, 4] and len(last.backbone.vectors_of(1)) == 4
    assert all(torch.equal(a, b) for a, b in zip(
        first.backbone.backbone.state_dict().values(), last.backbone.backbone.state_dict().values(), strict=True
    ))  # fmt: skip
    assert not torch.equal(first.backbone.encoder[0].weight, last.backbone.encoder[0].weight)  # it slept


def test_without_new_classes_recent_ones_stay_recent_and_others_sleep(states):
    _, (_, before), _ = states
    after = TRAINER.train(task_of([3, 0, 2], [], previous=before, state=2))
    assert after.backbone.sizes[3:] == (2, 1, 7 + 2) and after.backbone.count_R.tolist() == [9]
    assert not torch.equal(after.backbone.classifier.weight, before.backbone.classifier.weight)
    again = TRAINER.train(task_of([0, 0, 2], [], previous=before, state=2))
    assert torch.equal(again.backbone.classifier.weight, before.backbone.classifier.weight)


def test_it_is_read_from_its_tensors(states):
    for task, network in states:
        again = network_from("resnet8", 1, network.state_dict())
        assert torch.equal(again(task.images), network(task.images))
    tensors = states[-1][1].state_dict()
    for wrong in (
        {"backbone.count_R": torch.zeros(3, dtype=torch.int64)},
        {"backbone.classifier.bias": torch.ones(())},
    ):
        with pytest.raises(ValueError, match="not the weights of resnet8"):
            network_from("resnet8", 1, tensors | wrong)


@pytest.mark.parametrize("label", [1, 4])
def test_nothing_of_a_forgotten_class_is_left_and_learning_goes_on(states, label):
    from scail.classifier.forgetting import _without_row

    task, network = states[-1]
    left = _without_row(network, label)
    assert left.linear.weight.argmax(1).tolist() == [c for c in range(5) if c != label]
    memories = left.backbone
    if label == 1:
        assert not memories.mean_ML[1].any() and not memories.covariance_MLL[1].any()
        assert left(task.images).isfinite().all() and (left.features(task.images)[:, 1] < -1000).all()
    else:
        assert not memories.recent.weight.view(2, 6, -1)[1].any() and memories.count_R.tolist() == [6, 0]
    assert network.backbone.covariance_MLL[1].any()  # the network of before is not touched
    after = TRAINER.train(task_of([0] * 4, [5], previous=left, state=3)).eval()
    assert after.backbone.sizes[3:] == (4, 1, 5) and after.linear.out_features == 5
    assert after(task.images).isfinite().all()


def test_what_no_prediction_needs_is_counted_apart(states):
    _, network = states[-1]
    sizes = [tensor.numel() for tensor in network.kept]
    long, code, hidden, features = 3, 130, 140, 64
    assert sum(sizes[:2]) == long * code + long * code * code
    assert sum(sizes[2:]) == (code + 1) * hidden + (hidden + 1) * features


def test_a_loss_that_is_no_number_and_wrong_weights_are_errors():
    wild = replace(TRAINER, base=replace(MEMORY, lr=1e20))
    with pytest.raises(TrainingDiverged, match=r"FearNet's long memory, epoch .* try a lower one"):
        wild.train(task_of([], [9, 9]))
    recipe = quick("digits").recipe
    with pytest.raises(ValueError, match=r"expected 2, as 1\+0.1"):
        trainer_of(Fearnet, recipe, recipe.schedules.but([("fearnet_sleep", "distillation", (1.0,))]), None)


def test_a_long_memory_that_collapses_is_told():
    flat = replace(TRAINER, base=replace(MEMORY, lr=0.05, epochs=60, weight_decay=10.0))
    with pytest.raises(
        ValueError, match=r"state 0, FearNet: the long memory has collapsed.* class 0 .*schedule fearnet-sleep"
    ):
        flat.train(task_of([], [9, 9]))
    check_spread(torch.ones(3, 2), torch.ones(3, 2), 0, 0)  # images that are all the same may be


def test_it_stops_when_asked_and_comes_out_the_same(states):
    task, network = states[1]
    with pytest.raises(Interrupted):
        TRAINER.train(replace(task, stop_asked=lambda: True))
    again = TRAINER.train(task).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in network.state_dict().items())
