"""LwF with a softmax: fine tuning that holds on to what the network before says of new images."""

from __future__ import annotations

import torch

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.trajectory import Trajectory, keys_of, trajectories_in
from scail.config import Schedule
from scail.config.recipes import split_mnist
from scail.runtime.devices import fabric_of
from scail.storage.store import Store
from scail.training import Distill, Joint, LwfSoftmax
from tests.training.test_loop import SCHEDULE, task


def test_past_outputs_stay_nearer_to_the_teacher_than_in_fine_tuning_and_rows_are_kept(monkeypatch):
    first = LwfSoftmax(Joint("resnet8", SCHEDULE), SCHEDULE).train(task())
    new = task(1, 4, first)
    new = new.of(torch.arange(40)[new.labels >= 2])
    seen = []
    monkeypatch.setattr("scail.training.lwf_softmax.fit", lambda network, *given: seen.append((network, *given)))
    network = LwfSoftmax(Joint("resnet8", SCHEDULE), SCHEDULE).train(new)
    torch.testing.assert_close(network.linear.weight[:2], first.linear.weight)
    (_, job, schedule, loss) = seen[0]
    assert job is new and schedule == SCHEDULE
    scores, past = network.eval()(new.images), first.eval()(new.images)
    assert torch.allclose(scores[:, :2], past, atol=1e-5)  # so far they say the same
    told = -(torch.softmax(past / 2, 1) * torch.log_softmax(scores[:, :2] / 2, 1)).sum(1).mean()
    expected = torch.nn.functional.cross_entropy(scores, new.labels) + told
    torch.testing.assert_close(loss(network, new.images, new.labels), expected)


def test_it_has_no_memory_shares_state_0_with_fine_tuning_and_learns_the_new_classes(tiny, store_dir):
    (of,) = trajectories_in(settle(tiny.but(methods=("lwf_softmax",))))
    assert (of.trainer, of.select, of.memory) == ("lwf_softmax", None, 0)
    other = Trajectory(of.configuration, "fine_tune", None, 0, ("ft_nomem",))
    ours, theirs = (keys_of(one, ("cpu", "same"), lambda state: "data") for one in (of, other))
    assert ours[0] == theirs[0] and ours[1] != theirs[1]
    steps = [*steps_of(of, Store(store_dir), fabric_of(of.configuration.experiment.machine), Watch())]
    assert len(steps) == len(of.configuration.states)


def test_the_rate_of_adam_is_not_one_for_a_hundred_outputs():
    """A step of Adam is as long whatever the loss is divided by; one of SGD is not."""
    recipe = split_mnist().recipe
    assert Distill.of(recipe, recipe.schedules, 10).schedule.lr == 0.001
    sgd = recipe.schedules.but([("distill", "optimizer", "sgd")])
    assert Distill.of(recipe, sgd, 10).schedule.lr == 0.001 * 10 / 100
    assert isinstance(recipe.schedules["distill"], Schedule)
