"""The SGD loop."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric
from torch.nn import functional as F

from scail.config import Schedule
from scail.config.recipes import paper, quick
from scail.datasets.images.batches import Augmentation
from scail.networks.network import create_network
from scail.runtime.seeds import generator_for
from scail.storage.checkpoint import Checkpoint
from scail.training import FineTune, Interrupted, Joint, Task, TrainingDiverged
from scail.training.loop import fit
from scail.training.rates import Rates

SCHEDULE = Schedule(epochs=2, lr=0.05, batch_size=16, decay="cosine")
FABRIC = Fabric(accelerator="cpu", devices=1)


def task(state: int = 0, num_classes: int = 2, previous=None, reports=None, seed: int = 0) -> Task:
    draw = torch.Generator().manual_seed(state)
    images = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=draw)
    report = (lambda progress: None) if reports is None else reports.append
    return Task(
        state, images, torch.arange(40) % num_classes, num_classes, previous, Augmentation(1), seed, FABRIC, report
    )


def test_two_steps_are_plain_sgd_with_momentum_and_weight_decay():
    """Against the update rule written out, on the linear layer alone (the rest of the network stays fixed)."""
    schedule = Schedule(epochs=2, lr=0.1, batch_size=64, momentum=0.9, weight_decay=0.01, decay="cosine")
    job = replace(task(), augmentation=Augmentation(padding=0, mirror=False))
    network = create_network("resnet8", 1, 2, generator_for(0, "x"))
    for parameter in network.backbone.parameters():
        parameter.requires_grad_(False)
    network.backbone.apply(lambda m: setattr(m, "momentum", 0.0) if hasattr(m, "momentum") else None)
    expected = {name: p.detach().clone() for name, p in network.linear.named_parameters()}
    features = network.train().features(job.images).detach()  # one batch: its statistics are those of all images
    velocity = {name: torch.zeros_like(p) for name, p in expected.items()}
    for rate in (0.1, 0.05):
        weight, bias = (expected[name].requires_grad_(True) for name in ("weight", "bias"))
        loss = F.cross_entropy(features @ weight.T + bias, job.labels)
        gradients = dict(zip(("weight", "bias"), torch.autograd.grad(loss, (weight, bias)), strict=True))
        for name, gradient in gradients.items():
            velocity[name] = 0.9 * velocity[name] + gradient + 0.01 * expected[name].detach()
            expected[name] = expected[name].detach() - rate * velocity[name]
    fit(network, job, schedule)
    for name, parameter in network.linear.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-4, atol=1e-5)


def test_the_backbone_moves_at_its_own_rate_and_the_layer_at_the_full_one():
    """One step, from the gradient by hand: rate * times * (gradient + decay * weight)."""
    network = create_network("resnet8", 1, 2, generator_for(0, "x"))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    job = replace(task(), augmentation=Augmentation(padding=0, mirror=False))
    schedule = Schedule(epochs=1, lr=0.4, batch_size=64, weight_decay=0.01, decay="cosine", backbone_rate=0.1)
    twin = network.clone().train()
    loss = F.cross_entropy(twin(job.images), job.labels)
    gradients = dict(zip(before, torch.autograd.grad(loss, [*twin.parameters()]), strict=True))
    fit(network, job, schedule)
    for name, parameter in network.named_parameters():
        rate = 0.4 if name.startswith("linear.") else 0.04
        expected = before[name] - rate * (gradients[name] + 0.01 * before[name])
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-4, atol=1e-6)


def test_two_steps_of_adam_are_those_of_its_update_rule():
    """On the linear layer alone: means of the gradient and of its square, each divided by what it is short of."""
    schedule = Schedule(
        epochs=2, lr=0.1, batch_size=64, momentum=0.8, weight_decay=0.01, decay="steps", optimizer="adam"
    )
    job = replace(task(), augmentation=Augmentation(padding=0, mirror=False))
    network = create_network("resnet8", 1, 2, generator_for(0, "x"))
    for parameter in network.backbone.parameters():
        parameter.requires_grad_(False)
    network.backbone.apply(lambda m: setattr(m, "momentum", 0.0) if hasattr(m, "momentum") else None)
    features = network.train().features(job.images).detach()
    expected = {name: p.detach().clone() for name, p in network.linear.named_parameters()}
    mean, square = ({name: torch.zeros_like(p) for name, p in expected.items()} for _ in range(2))
    for step in (1, 2):
        weight, bias = (expected[name].requires_grad_(True) for name in ("weight", "bias"))
        loss = F.cross_entropy(features @ weight.T + bias, job.labels)
        gradients = torch.autograd.grad(loss, (weight, bias))
        for name, gradient in zip(("weight", "bias"), gradients, strict=True):
            decayed = gradient + 0.01 * expected[name].detach()
            mean[name] = 0.8 * mean[name] + 0.2 * decayed
            square[name] = 0.999 * square[name] + 0.001 * decayed**2
            moved = mean[name] / (1 - 0.8**step) / ((square[name] / (1 - 0.999**step)).sqrt() + 1e-8)
            expected[name] = expected[name].detach() - 0.1 * moved
    fit(network, job, schedule)
    for name, parameter in network.linear.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("other", [{"backbone_rate": 0.1}, {"optimizer": "adam", "lr": 0.001}])
def test_another_way_to_step_goes_on_from_a_checkpoint_to_the_bit(other, tmp_path):
    schedule = replace(SCHEDULE, epochs=4, **other)
    whole = Joint("resnet8", schedule).train(task()).state_dict()
    checkpoint, left = Checkpoint(tmp_path / "a.safetensors"), [5]

    def stop() -> bool:
        left[0] -= 1
        return left[0] == 0

    with pytest.raises(Interrupted):
        Joint("resnet8", schedule).train(replace(task(), checkpoint=checkpoint, stop_asked=stop))
    again = Joint("resnet8", schedule).train(replace(task(), checkpoint=checkpoint)).state_dict()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_a_loss_that_is_not_finite_stops_the_run_and_says_where():
    trainer = FineTune(Joint("resnet8", SCHEDULE), replace(SCHEDULE, lr=1e30))
    first = trainer.train(task())
    with pytest.raises(TrainingDiverged, match=r"state 3, epoch [12] of 2: the loss is (nan|inf) at learning rate"):
        trainer.train(task(state=3, num_classes=4, previous=first))


def test_the_linear_layer_is_recreated_or_keeps_past_rows():
    first = Joint("resnet8", SCHEDULE).train(task())
    still = replace(SCHEDULE, lr=1e-12, weight_decay=0.0)  # nothing moves: what is left is how the layer began
    kept = FineTune(Joint("resnet8", SCHEDULE), still, keep_past_rows=True).train(task(1, 4, first))
    fresh = FineTune(Joint("resnet8", SCHEDULE), still).train(task(1, 4, first))
    torch.testing.assert_close(kept.linear.weight[:2], first.linear.weight)
    assert (fresh.linear.weight[:2] - first.linear.weight).abs().max() > 0.01
    torch.testing.assert_close(kept.linear.weight[2:], fresh.linear.weight[2:])  # new rows begin alike
    assert kept.linear.weight.shape == (4, 64)


def test_training_leaves_the_previous_network_alone_and_all_layers_move():
    first = Joint("resnet8", SCHEDULE).train(task())
    before = {name: value.clone() for name, value in first.state_dict().items()}
    after = FineTune(Joint("resnet8", SCHEDULE), SCHEDULE).train(task(1, 4, first))
    assert all(torch.equal(first.state_dict()[name], value) for name, value in before.items())
    moved = [
        not torch.equal(dict(after.named_parameters())[n], p) for n, p in first.named_parameters() if "linear" not in n
    ]
    assert all(moved)


def test_normalisation_comes_from_the_first_state_only():
    trainer = FineTune(Joint("resnet8", SCHEDULE), SCHEDULE)
    first = trainer.train(task())
    second = trainer.train(replace(task(1, 4, first), images=torch.full((40, 1, 8, 8), 7, dtype=torch.uint8)))
    assert torch.equal(first.mean, second.mean)
    assert first.mean == pytest.approx(float(task().images.float().mean()), rel=1e-5)


def test_progress_counts_every_image_and_ends_every_epoch_with_its_loss():
    reports: list = []
    Joint("resnet8", SCHEDULE).train(task(reports=reports))
    assert sum(report.images for report in reports) == 2 * 40
    assert [report.loss is not None for report in reports] == [False, False, False, True] * 2


@pytest.mark.parametrize(("images", "trained_on"), [(40, 32), (36, 32), (45, 45), (48, 48), (12, 12), (49, 49)])
def test_an_incomplete_group_of_summed_micro_batches_is_dropped(images, trained_on):
    """Batches of 16 in micro-batches of 4. 45 = 16 + 16 + 13, and 13 are four parts; 12 are all that there is."""
    schedule = Schedule(epochs=1, lr=0.01, batch_size=16, micro_batch=4, sum_micro_batches=True)
    reports: list = []
    job = task(reports=reports).of(torch.arange(images) % 40)
    Joint("resnet8", schedule).train(job)
    assert sum(report.images for report in reports) == trained_on
    reports.clear()
    Joint("resnet8", replace(schedule, sum_micro_batches=False)).train(job)
    assert sum(report.images for report in reports) == images


def test_the_last_micro_batch_judges_the_plateau(tmp_path):
    schedule = Schedule(epochs=6, lr=0.1, batch_size=20, patience=0, micro_batch=5, sum_micro_batches=True)
    checkpoint, reports = Checkpoint(tmp_path / "a.safetensors"), []
    Joint("resnet8", schedule).train(replace(task(reports=reports), checkpoint=checkpoint))
    facts = checkpoint.stage("training").load().facts
    assert len(facts["last_words"]) == len(facts["losses"]) == 6
    assert facts["last_words"] != facts["losses"]
    rates = [Rates(schedule, 0, 40).next(facts["last_words"][:done]) for done in range(6)]
    expected = [False, *(later < before for before, later in itertools.pairwise(rates))]
    told = [report.lowered for report in reports if report.loss is not None]
    assert told == expected and any(told)


def test_only_a_plateau_rule_says_whether_it_lowered_the_rate():
    reports: list = []
    Joint("resnet8", SCHEDULE).train(task(reports=reports))
    assert {report.lowered for report in reports} == {None}
    Joint("resnet8", Schedule(epochs=2, lr=0.1, batch_size=16)).train(task(reports=reports))
    assert [report.lowered for report in reports if report.loss is not None][-2:] == [False, False]


def test_state_0_has_the_same_settings_for_every_later_schedule():
    first = Joint("resnet8", SCHEDULE)
    one, two = FineTune(first, SCHEDULE), FineTune(first, replace(SCHEDULE, lr=9.0), keep_past_rows=True)
    assert one.settings(0) == two.settings(0) == first.settings(0)
    assert one.settings(1) != two.settings(1)


def test_the_papers_recipe_has_the_papers_numbers():
    recipe = paper("cifar100").recipe
    first, later = recipe.schedules["first"], recipe.schedules["later"]
    assert (first.epochs, first.lr, first.patience) == (300, 0.1, 60)
    assert (later.epochs, later.lr, later.patience) == (60, 0.1, 15)
    for schedule in (first, later):
        assert (schedule.batch_size, schedule.momentum, schedule.weight_decay) == (128, 0.9, 5e-4)
        assert schedule.decay == "plateau"
    assert later.divide_by_state and not first.divide_by_state
    assert recipe.network == "resnet18-3x3" and paper("cifar100").heads.candidates == 10
    assert quick("glyphs").recipe.network == "resnet8"
