"""The SGD loop and the trainers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning_fabric import Fabric
from torch.nn import functional as F

from scail.config.recipes import Schedule, paper, quick
from scail.datasets.images.batches import Augmentation
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry
from scail.training import FineTune, Joint, Task, TrainingDiverged
from scail.training.loop import learning_rate

SCHEDULE = Schedule(epochs=2, lr=0.05, batch_size=16, decay="cosine")
FABRIC = Fabric(accelerator="cpu", devices=1)


def task(state: int = 0, num_classes: int = 2, previous=None, reports=None, seed: int = 0) -> Task:
    draw = torch.Generator().manual_seed(state)
    images = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=draw)
    report = (lambda progress: None) if reports is None else reports.append
    return Task(
        state, images, torch.arange(40) % num_classes, num_classes, previous, Augmentation(1), seed, FABRIC, report
    )


@given(st.lists(st.floats(0.001, 10), max_size=30), st.integers(0, 4))
def test_the_plateau_rule_is_torchs_own(losses, patience):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=patience, eps=0)
    for loss in losses:
        reference.step(loss)
    schedule = Schedule(epochs=99, lr=0.1, batch_size=1, patience=patience)
    assert learning_rate(schedule, 0, losses) == pytest.approx(optimizer.param_groups[0]["lr"])


def test_cosine_goes_from_the_rate_to_nothing_and_states_divide_it():
    rates = [learning_rate(Schedule(4, 0.4, 1, decay="cosine"), 0, [1.0] * done) for done in range(4)]
    assert rates == pytest.approx([0.4, 0.2 * (1 + 0.5**0.5), 0.2, 0.2 * (1 - 0.5**0.5)])
    assert learning_rate(Schedule(4, 0.4, 1, divide_by_state=True), 3, []) == pytest.approx(0.1)
    assert learning_rate(Schedule(4, 0.4, 1), 3, []) == 0.4


def test_two_steps_are_plain_sgd_with_momentum_and_weight_decay():
    """Against the update rule written out, on the linear layer alone (the rest of the network stays fixed)."""
    from scail.networks.network import create_network
    from scail.runtime.seeds import generator_for

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
    from scail.training.loop import fit

    fit(network, job, schedule)
    for name, parameter in network.linear.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-4, atol=1e-5)


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


def test_state_0_has_the_same_settings_for_every_later_schedule():
    first = Joint("resnet8", SCHEDULE)
    one, two = FineTune(first, SCHEDULE), FineTune(first, replace(SCHEDULE, lr=9.0), keep_past_rows=True)
    assert one.settings(0) == two.settings(0) == first.settings(0)
    assert one.settings(1) != two.settings(1)


def test_the_papers_recipe_has_the_papers_numbers():
    recipe = paper("cifar100")
    assert (recipe.first_schedule.epochs, recipe.first_schedule.lr, recipe.first_schedule.patience) == (300, 0.1, 60)
    assert (recipe.later_schedule.epochs, recipe.later_schedule.lr, recipe.later_schedule.patience) == (60, 0.1, 15)
    for schedule in (recipe.first_schedule, recipe.later_schedule):
        assert (schedule.batch_size, schedule.momentum, schedule.weight_decay) == (128, 0.9, 5e-4)
        assert schedule.decay == "plateau"
    assert recipe.later_schedule.divide_by_state and not recipe.first_schedule.divide_by_state
    assert recipe.network == "resnet18-3x3" and recipe.candidates == 10
    assert quick("glyphs").network == "resnet8"


@pytest.mark.parametrize(
    "facts", [{}, {"batch": "1", "loss": 0.0, "losses": []}, {"batch": 0, "loss": 0, "losses": [[]]}]
)
@pytest.mark.parametrize("whole", [True, False], ids=["its weights", "no weights"])
def test_a_checkpoint_of_something_else_is_a_clear_error(facts, whole, tmp_path):
    from scail.networks.network import create_network
    from scail.runtime.seeds import generator_for

    checkpoint = Checkpoint(tmp_path / "a.safetensors")
    network = create_network("resnet8", 1, 2, generator_for(0, "any"))
    weights = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    checkpoint.stage("training").save(Entry(weights if whole else {"x": torch.ones(1)}, facts))
    with pytest.raises(ValueError, match=r"a\.training\.safetensors: not the checkpoint of this training; remove it"):
        Joint("resnet8", Schedule(epochs=1, lr=0.1, batch_size=4)).train(replace(task(), checkpoint=checkpoint))
