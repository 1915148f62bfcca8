"""M2KD: its loss, its pruning and its storage by hand; what earlier models give stays to the bit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from scail.config.recipes import quick
from scail.networks.network import Inside, network_from
from scail.training import M2kd, Trained, trainer_of
from scail.training.earlier_models import EarlierModels, Teacher, held, keep_largest, masked
from scail.training.m2kd import multi_model_loss
from tests.training.test_trainers import SCHEDULE, network_for, task_of

TRAINER = M2kd("resnet8", SCHEDULE, replace(SCHEDULE, lr=0.01))
LN2, LN3 = math.log(2), math.log(3)
NONE = torch.empty(0, dtype=torch.int64)


class Showing(nn.Module):
    """A model that says the same of every batch, and shows auxiliary scores."""

    def __init__(self, scores, auxiliary):
        super().__init__()
        self.scores, self.auxiliary = torch.tensor(scores), torch.tensor(auxiliary)

    def forward(self, _images, inside=""):
        assert inside == "maps"
        return Inside(self.scores, torch.empty(0), torch.ones(()), [], self.auxiliary)


def learned(task):
    """The network after a task, and what is carried on."""
    network = TRAINER.train(task)
    return network, TRAINER.complete(Trained(network, NONE, NONE, NONE, NONE, torch.empty(0, 64)), task)


@pytest.fixture(scope="module")
def two_states():
    """Task, network and carried values of two states: two classes, then two more."""
    first = task_of([], [9, 9])
    network, carried = learned(first)
    second = task_of([3, 3], [8, 8], budget=6, previous=network, carried=carried)
    return (first, network, carried), (second, *learned(second))


def test_each_teacher_teaches_its_own_classes_in_both_classifiers():
    # Classes 0 and 1 are of the first model, 2 and 3 of the second; the image is of class 4.
    student = Showing([[2 * LN3, 0.0, 0.0, 0.0, 2 * LN2]], [[0.0] * 5])
    first = Teacher(torch.tensor([0, 1]), Showing([[0.0, 0.0]], [[0.0, 0.0]]))
    second = Teacher(torch.tensor([2, 3]), Showing([[0.0, 0.0]], [[2 * LN3, 0.0]]))
    loss = multi_model_loss([first, second], 0.5, 0.1, student, torch.zeros(1), torch.tensor([4]))
    # At temperature 2 the first model's pair is (3, 1) / 4 against halves, 2 ln 2 - ln 3 / 2, of which ln 2 is the
    # teacher's own. The second one's are halves, as the teacher's. Inside the second teacher says (3, 1) / 4, which
    # leaves 2 ln 2 - 3/4 ln 3 open, and the student halves: ln 2.
    outer = math.log(9 + 1 + 1 + 1 + 4) - 2 * LN2 + 0.5 * (LN2 - LN3 / 2)
    inner = math.log(5) + 0.5 * (LN2 - 2 * LN2 + 0.75 * LN3)
    assert loss.item() == pytest.approx(outer + 0.1 * inner)


def test_of_the_free_weights_the_largest_stay_and_the_others_become_zero():
    backbone = nn.Sequential(nn.Linear(3, 2))
    with torch.no_grad():
        backbone[0].weight.copy_(torch.tensor([[9.0, -1.0, 2.0], [-4.0, 3.0, 8.0]]))
    free = torch.tensor([[False, True, True], [True, True, True]])
    (mine,) = keep_largest(backbone, [free], 0.25)  # a quarter of five, rounded up: two
    assert mine.tolist() == [[False, False, False], [True, False, True]]
    assert backbone[0].weight.tolist() == [[9, 0, 0], [-4, 0, 8]]  # 9 is not free: it stays, too


def test_weights_that_are_held_come_back_after_every_step():
    backbone = nn.Sequential(nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        backbone[0].weight.copy_(torch.tensor([[1.0, 2.0]]))
    with held(backbone, [torch.tensor([[True, False]])], torch.device("cpu")):
        with torch.no_grad():
            backbone[0].weight.add_(10)
        assert backbone(torch.ones(1, 2)).item() == 1 + 12
        with torch.no_grad():
            backbone[0].weight.add_(10)
    assert backbone[0].weight.tolist() == [[1, 22]]


def test_an_earlier_model_is_what_it_was_to_the_bit(two_states):
    (first, before, _), (_, after, carried) = two_states
    models = EarlierModels.carried_in(carried)
    assert models.newest == 2 and models.model_C.tolist() == [1, 1, 2, 2]
    for number, network, own in ((1, before, [0, 1]), (2, after, [2, 3])):
        found = models.model(number, torch.tensor(own), after)(first.images, inside="maps")
        expected = network.eval()(first.images, inside="maps")
        torch.testing.assert_close(found.features_ND, expected.features_ND, rtol=0, atol=0)
        torch.testing.assert_close(found.scores_NC, expected.scores_NC[:, own])
        torch.testing.assert_close(found.auxiliary_NC, expected.auxiliary_NC[:, own])
    assert not torch.equal(before(first.images)[:, :2], after.eval()(first.images)[:, :2])


def test_a_quarter_of_the_weights_that_are_free_is_taken_by_each_model(two_states):
    (_, _, first), (_, after, second) = two_states
    count = len(second["owner_W"])
    shares = [(second["owner_W"] == number).sum().item() / count for number in (1, 2, 0)]
    assert shares == pytest.approx([0.25, 0.75 * 0.25, 0.75**2], abs=0.01)
    assert (torch.cat([w.flatten() for w in masked(after.backbone)]) == 0).tolist() == (second["owner_W"] == 0).tolist()
    # One byte a weight, however many models; beside it biases and batch norms.
    assert first["owner_W"].numel() * first["owner_W"].element_size() == count
    assert second["rest_MK"].shape == (2, first["rest_MK"].shape[1]) and first["rest_MK"].shape[1] < count / 50


def test_without_new_classes_the_newest_model_is_learned_anew(two_states):
    _, (_, network, carried) = two_states
    task = task_of([6, 6, 6, 6], [], budget=24, previous=network, carried=carried)
    after, found = learned(task)
    models, before = EarlierModels.carried_in(found), EarlierModels.carried_in(carried)
    assert models.newest == 2 and not torch.equal(after.linear.weight, network.linear.weight)
    assert torch.equal(models.owner_W == 1, before.owner_W == 1)
    assert torch.equal(models.rest_MK[0], before.rest_MK[0]) and not torch.equal(models.rest_MK[1], before.rest_MK[1])
    assert torch.equal(models.weight_CD[:2], before.weight_CD[:2])
    assert torch.equal(models.weight_CD[2:], after.linear.weight[2:].detach())


def test_it_is_read_from_its_tensors(two_states):
    _, (task, network, _) = two_states
    again = network_from("resnet8", 1, network.state_dict())
    assert torch.equal(again(task.images), network.eval()(task.images))
    assert torch.equal(again.auxiliary.weight, network.auxiliary.weight)
    with pytest.raises(ValueError, match="not the weights of resnet8"):
        network_from("resnet8", 1, network.state_dict() | {"auxiliary.weight": torch.zeros(3, 32)})


def test_a_forgotten_class_takes_its_rows_with_it_and_strange_values_are_an_error(two_states):
    _, (_, _, carried) = two_states
    M2kd.check_carried(carried, 4, 64)
    left = M2kd.without_class(carried, 2)
    M2kd.check_carried(left, 3, 64)
    assert left["model_C"].tolist() == [1, 1, 2] and torch.equal(left["weight_CD"][2], carried["weight_CD"][3])
    for wrong, message in (
        ({"owner_W": carried["owner_W"].float()}, "owner_W: expected"),
        ({"rest_MK": carried["rest_MK"][:1]}, "models numbered to 2"),
        ({"weight_CD": torch.zeros(4, 3)}, "weight_CD is"),
        ({"auxiliary_weight_CA": torch.zeros(4)}, "auxiliary_weight_CA is"),
    ):
        with pytest.raises(ValueError, match=message):
            M2kd.check_carried(carried | wrong, 4, 64)


def test_a_network_without_room_or_of_another_size_is_an_error(two_states):
    _, (_, network, carried) = two_states
    task = task_of([3, 3, 3, 3], [8], budget=12, previous=network, carried=carried)
    for owner, message in (
        (torch.ones_like(carried["owner_W"]), "no weight of the network is free any more after 2 models"),
        (torch.zeros(7, dtype=torch.uint8), "owner_W is for 7 weights"),
    ):
        with pytest.raises(ValueError, match=message):
            TRAINER.train(replace(task, carried=carried | {"owner_W": owner}))
    many = carried | {"rest_MK": carried["rest_MK"][:1].repeat(254, 1)}
    with pytest.raises(ValueError, match="254 models are kept, and there can be no more"):
        TRAINER.train(replace(task, carried=many))


def test_a_network_that_shows_no_maps_is_an_error():
    network = network_for(2)
    network.backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 64))
    with pytest.raises(ValueError, match="M2KD compares maps inside the network"):
        TRAINER.train(task_of([], [3, 3], start=network))


def test_wrong_weights_of_its_terms_are_an_error():
    recipe = quick("digits").recipe
    with pytest.raises(ValueError, match=r"distillation has 1 weights, expected 2, as 1\+1"):
        trainer_of(M2kd, recipe, recipe.schedules.but([("m2kd", "distillation", (1.0,))]), None)
