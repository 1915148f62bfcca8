"""Generative replay: the losses of generator and critic by hand; what is made up, kept, resumed, told and forgotten."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
import torch
from torch import nn

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.trajectory import trajectories_in
from scail.config import Schedule
from scail.config.recipes import quick
from scail.datasets import load_dataset
from scail.learner import Rows, train_state
from scail.networks.image_generator import NOISE, ConditionalNorm, ImageShape, drawn_pair
from scail.runtime.seeds import generator_for
from scail.storage.checkpoint import Checkpoint
from scail.storage.store import Store
from scail.training import GenerativeReplay, Interrupted, TrainingDiverged, adversarial, trainer_of
from scail.training.adversarial import critic_loss, generator_loss, gradient_penalty, train_generator
from scail.training.generative_replay import check_spread, with_generated
from scail.training.generators import Generators, recognised_share
from tests.training.test_trainers import FABRIC, JOINT, SCHEDULE, task_of

MAKE = Schedule(epochs=2, lr=1e-3, batch_size=8, weight_decay=0.0, decay="steps", critic_steps=2)
TRAINER = GenerativeReplay(JOINT, SCHEDULE, MAKE)
SHAPE = ImageShape(1, 8, 8)


def learned(trainer, task):
    """The network after a task, and what is carried on."""
    new = int((task.labels >= task.past_classes).sum())
    rows = torch.arange(len(task.images))
    trained = train_state(trainer, task, Rows(rows[:new], rows[new:]))
    return trained.network, trainer.complete(trained, task)


@pytest.fixture(scope="module")
def states():
    """Task, network and carried values of three states: two classes, then one more, then two more."""
    found, previous, carried = [], None, {}
    for past, new in (([], [9, 8]), ([3, 3], [7]), ([2, 2, 2], [6, 4])):
        task = task_of(past, new, previous=previous, seed=len(past), state=len(found), carried=carried)
        previous, carried = learned(TRAINER, task)
        found.append((task, previous, carried))
    return found


# --- Networks and losses


@pytest.mark.parametrize(
    ("shape", "layers", "start"),
    [
        (ImageShape(1, 8, 8), 2, (2, 2)), (ImageShape(1, 20, 20), 3, (3, 3)), (ImageShape(1, 28, 28), 3, (4, 4)),
        (ImageShape(3, 32, 32), 3, (4, 4)), (ImageShape(3, 64, 48), 3, (8, 6)), (ImageShape(2, 3, 5), 1, (2, 3)),
    ],
)  # fmt: skip
def test_images_have_the_size_that_is_asked_for(shape, layers, start):
    assert (shape.layers, shape.start) == (layers, start)
    generator, critic = drawn_pair(shape, 3, generator_for(0, "pair"))
    labels = torch.tensor([0, 2])
    made = generator(torch.randn(2, NOISE), labels)
    assert made.shape == (2, *shape[:3]) and made.abs().max() <= 1
    assert critic(made, labels).shape == (2,)
    drawn = generator.drawn(labels, generator_for(0, "noise"))
    assert drawn.shape == made.shape and drawn.dtype == torch.uint8


def test_each_class_has_a_scale_and_a_shift_of_its_own():
    norm = ConditionalNorm(1, 2)
    with torch.no_grad():
        norm.scale.weight.copy_(torch.tensor([[1.0], [10.0]]))
        norm.shift.weight.copy_(torch.tensor([[0.0], [5.0]]))
    # -1 and 1: mean 0, variance 1.
    found = norm(torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1), torch.tensor([0, 1]))
    torch.testing.assert_close(found.flatten(), torch.tensor([-1.0, 15.0]), rtol=1e-4, atol=1e-4)


class Straight(nn.Module):
    """A critic whose score is 3 x + 4 y of two pixels for class 0, and 6 x + 8 y for class 1."""

    def forward(self, pixels, labels_N):
        return pixels.flatten(1) @ torch.tensor([3.0, 4.0]) * (1 + labels_N)


class Always(nn.Module):
    """A generator of one image."""

    def forward(self, noise_NZ, labels_N):
        return torch.tensor([0.5, -1.0]).view(1, 1, 1, 2).expand(len(labels_N), 1, 1, 2)


def test_the_losses_by_hand():
    real, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).view(2, 1, 1, 2), torch.tensor([0, 1])
    # Gradients (3, 4) and (6, 8) are 5 and 10 long: the mean of (5 - 1)^2 and (10 - 1)^2.
    penalty = (16 + 81) / 2
    assert gradient_penalty(Straight(), real.clone(), labels).item() == pytest.approx(penalty)
    # Real images score 3 and 8; generated ones 3/2 - 4 = -2.5 and -5.
    found = critic_loss(Straight(), real, labels, Always(), generator_for(0, "draw"))
    assert found.item() == pytest.approx(-3.75 - 5.5 + 10 * penalty)
    assert generator_loss(Straight(), labels, Always(), generator_for(0, "draw")).item() == pytest.approx(3.75)


def test_it_learns_what_its_classes_look_like():
    """Dark images with a bright left half, and with a bright right half."""
    labels = torch.arange(2).repeat_interleave(24)
    images = torch.randint(0, 40, (48, 1, 8, 8), generator=generator_for(0, "images")).to(torch.uint8)
    images[:24, :, :, :4] += 180
    images[24:, :, :, 4:] += 180
    task = replace(task_of([], [24, 24]), images=images, labels=labels)
    made = train_generator(images, labels, SHAPE, replace(MAKE, epochs=60, batch_size=16), task)
    left, right = made.drawn(labels, generator_for(1, "noise")).float().split(24)
    assert left[..., :4].mean() > left[..., 4:].mean() + 60
    assert right[..., 4:].mean() > right[..., :4].mean() + 60


# --- The trainer


def test_past_classes_are_brought_up_to_new_ones_with_generated_images(states):
    _, (task, _, _), _ = states  # exemplars 3 and 3, and 7 new images
    mixed = with_generated(task, SHAPE)
    assert torch.equal(mixed.images[: len(task.images)], task.images)
    assert torch.bincount(mixed.labels).tolist() == [7, 7, 7]
    assert mixed.labels[len(task.labels) :].tolist() == [0] * 4 + [1] * 4
    again = with_generated(task, SHAPE)
    assert torch.equal(mixed.images, again.images)
    later = with_generated(replace(task, state=5), SHAPE)
    assert not torch.equal(mixed.images, later.images)
    assert TRAINER.epoch_images(1, (3, 3, 7), 2) == len(mixed.images)
    assert TRAINER.epoch_images(0, (9, 8), 0) == 17


def test_a_generator_is_kept_as_it_was_when_its_classes_were_new(states):
    (_, _, first), _, (_, _, last) = states
    assert last["generator_C"].tolist() == [0, 0, 1, 2, 2] and last["column_C"].tolist() == [0, 1, 0, 0, 1]
    for name, value in first.items():
        if "." in name:
            assert torch.equal(last[name], value)
    assert torch.equal(last["recognised_C"][:2], first["recognised_C"])
    assert recognised_share(last) == pytest.approx(100 * last["recognised_C"].mean().item(), abs=1e-4)
    assert last["generator_0.first.weight"].dtype == torch.float16
    GenerativeReplay.check_carried(last, 5, 64)


def test_without_new_classes_there_is_no_new_generator(states):
    _, network, carried = states[-1]
    task = task_of([4, 4, 4, 4, 4], [], previous=network, carried=carried, state=3)
    _, found = learned(TRAINER, task)
    assert found.keys() == carried.keys()
    assert all(torch.equal(found[name], value) for name, value in carried.items())


def test_a_class_is_forgotten_with_its_part_of_the_generators(states):
    carried = states[-1][2]
    without = GenerativeReplay.without_class(carried, 2)  # alone in its generator
    assert not any(name.startswith("generator_1.") for name in without)
    assert without["generator_C"].tolist() == [0, 0, 2, 2]
    GenerativeReplay.check_carried(without, 4, 64)
    left = GenerativeReplay.without_class(without, 0)
    assert left["column_C"].tolist() == [1, 0, 1]
    for name in ("generator_0.start.weight", "generator_0.norms.0.scale.weight", "generator_0.norms.1.shift.weight"):
        assert not left[name][0].any() and torch.equal(left[name][1], carried[name][1])
        assert name.endswith("shift.weight") or carried[name][0].any()  # untouched where it was taken from
    of_class_1, _ = Generators.carried_in(carried).drawn([0, 3], 7)
    still = Generators.carried_in(left).one(0).drawn(torch.ones(3, dtype=torch.int64), generator_for(7, "generated", 1))
    assert torch.equal(of_class_1, still)
    assert Generators.carried_in(left).count == 3  # the next one has a number of its own


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"generator_C": torch.zeros(3, dtype=torch.int64)}, "generator_C is"),
        ({"generator_C": torch.full((5,), 7)}, "generator_7: not the weights"),
        ({"column_C": torch.full((5,), 9)}, "has no class 9"),
        ({"column_C": torch.zeros(5)}, "column_C is of torch.float32"),
        ({"generator_x.first.weight": torch.zeros(2, 2)}, "generator_x: a generator of no class"),
        ({"image_shape": torch.tensor([1, 8, 10**6, 16])}, "image_shape is"),
        ({"generator_1.first.weight": torch.zeros(2, 2)}, "generator_1: not the weights"),
    ],
)
def test_what_does_not_fit_is_an_error(states, changed, told):
    with pytest.raises(ValueError, match=told):
        GenerativeReplay.check_carried({**states[-1][2], **changed}, 5, 64)


# --- Stopping, and what goes wrong


@pytest.mark.parametrize("after", [1, 4])
def test_a_generator_that_was_stopped_goes_on_to_the_bit(states, tmp_path, after):
    task, checkpoint = replace(states[0][0]), Checkpoint(tmp_path / "state.safetensors")
    whole = train_generator(task.images, task.labels, SHAPE, MAKE, task)
    asked = count(1)
    stopped = replace(task, checkpoint=checkpoint, stop_asked=lambda: next(asked) == after)
    with pytest.raises(Interrupted):
        train_generator(task.images, task.labels, SHAPE, MAKE, stopped)
    seen = []
    rest = replace(task, checkpoint=checkpoint, report=lambda progress: seen.append(progress.epoch))
    again = train_generator(task.images, task.labels, SHAPE, MAKE, rest)
    assert seen == [*range(after + 1, 2 * 3 + 1)]  # two epochs of three batches; nothing is done twice
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in whole.state_dict().items())


def test_one_that_was_killed_goes_on_from_what_was_saved_last(states, tmp_path, monkeypatch):
    monkeypatch.setattr(adversarial, "_SAVE_EVERY", 2)
    task = states[0][0]

    def die(progress):
        if progress.epoch == 5:
            raise SystemExit

    kept = replace(task, checkpoint=Checkpoint(tmp_path / "state.safetensors"))
    with pytest.raises(SystemExit):
        train_generator(task.images, task.labels, SHAPE, MAKE, replace(kept, report=die))
    seen = []
    again = train_generator(
        task.images, task.labels, SHAPE, MAKE, replace(kept, report=lambda progress: seen.append(progress.epoch))
    )
    assert seen == [5, 6]
    whole = train_generator(task.images, task.labels, SHAPE, MAKE, task)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in whole.state_dict().items())
    other = replace(kept, images=task.images.repeat(1, 3, 1, 1))
    with pytest.raises(ValueError, match="not the checkpoint of this training"):
        train_generator(other.images, other.labels, ImageShape(3, 8, 8), MAKE, other)


def test_a_run_that_is_stopped_while_a_generator_learns_goes_on_to_the_bit(tiny, tmp_path):
    make = replace(MAKE, epochs=3, batch_size=16)
    experiment = tiny.but(methods=("generative_replay",), classes=4, states=2, memory=8, generator_schedule=make)
    (trajectory,) = (one for one in trajectories_in(settle(experiment)) if one.trainer == "generative_replay")
    stopping, notes = [], []

    def watch(state, progress):
        if state.index == 1 and progress.unit == "generator step":
            stopping.append(progress.epoch)

    stopped = Watch(lambda state, text: notes.append(text), watch, lambda: len(stopping) == 4)
    store = Store(tmp_path / "stopped")
    with pytest.raises(Interrupted):
        list(steps_of(trajectory, store, FABRIC, stopped))
    assert stopping == [1, 2, 3, 4] and len([*(store.root / "unfinished").iterdir()]) == 1
    again = list(steps_of(trajectory, store, FABRIC, replace(stopped, stop_asked=lambda: False)))
    assert stopping == [*range(1, 10)] and notes.count("training") == 2  # networks were not trained again
    whole = list(steps_of(trajectory, Store(tmp_path / "whole"), FABRIC, Watch()))
    for one, other in zip(again, whole, strict=True):
        assert one.learned.carried.keys() == other.learned.carried.keys()
        assert all(torch.equal(value, other.learned.carried[n]) for n, value in one.learned.carried.items())
        assert torch.equal(one.learned.evidence.weight_CD, other.learned.evidence.weight_CD)
    assert not [*(store.root / "unfinished").iterdir()]


def test_a_loss_that_is_no_number_and_a_collapse_are_told(states):
    task = states[0][0]
    with pytest.raises(TrainingDiverged, match=r"of the image generator: the loss is .*try a lower one"):
        learned(replace(TRAINER, generator=replace(MAKE, lr=1e20)), task)
    collapsing = replace(TRAINER, generator=replace(MAKE, lr=3.0, epochs=10))
    with pytest.raises(ValueError, match=r"state 0: the image generator has collapsed.* class [01] .*schedule gen"):
        learned(collapsing, task)
    check_spread(torch.ones(3, 2), torch.ones(3, 2), 0, 0)  # images that are all the same may be


def test_what_cannot_be_generated_is_refused_before_anything_is_trained(tiny):
    large = replace(task_of([], [2, 2]), images=torch.zeros(4, 1, 65, 20, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"images of 65 x 20 pixels; expected .* at most 64 x 64"):
        TRAINER.train(large)
    experiment = tiny.but(methods=("all",))
    dataset = load_dataset(experiment.dataset, experiment.data)
    parts = {part: getattr(dataset, part) for part in ("train", "test")}
    tall = {name: replace(of, images=torch.zeros(len(of), 1, 65, 8, dtype=torch.uint8)) for name, of in parts.items()}
    wide = replace(dataset, **tall)
    found = settle(experiment, wide)
    assert "generative_replay" not in found.methods
    assert any("generative replay is left out: images are 65 x 8 pixels, in memory" in note for note in found.notes)
    with pytest.raises(ValueError, match=r"method generative_replay: .* or scale images to 64 pixels"):
        settle(experiment.but(methods=("generative_replay",)), wide)
    recipe = quick("digits").recipe
    with pytest.raises(ValueError, match="decay is settle, expected steps or cosine"):
        trainer_of(GenerativeReplay, recipe, recipe.schedules.but([("generator", "decay", "settle")]), None)
