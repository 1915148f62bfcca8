"""Steps on whole batches. With several ranks: tests/runtime/test_ranks.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric
from torch.nn import functional as F

from scail.config import Schedule
from scail.datasets.images.batches import Augmentation
from scail.networks.network import create_network
from scail.runtime.ranks import ALONE
from scail.runtime.seeds import generator_for
from scail.runtime.stepper import Stepper
from scail.training import Task
from scail.training.loop import fit


def test_a_step_is_the_optimizers_own_and_gives_the_sum_of_the_loss():
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    other.load_state_dict(model.state_dict())
    inputs, labels = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 1, 0])
    stepper = Stepper(model, torch.optim.SGD(model.parameters(), 0.1), Fabric(accelerator="cpu", devices=1), ALONE)
    total = stepper.step(lambda m, x, y: F.cross_entropy(m(x), y), inputs, labels, 4)
    loss = F.cross_entropy(other(inputs), labels)
    loss.backward()
    torch.optim.SGD(other.parameters(), 0.1).step()
    assert total.dtype == torch.float64 and total.item() == pytest.approx(4 * loss.item())
    assert torch.equal(model.weight, other.weight) and torch.equal(model.bias, other.bias)


def test_micro_batches_give_the_gradient_of_the_whole_batch():
    """Without batch norm, up to rounding: 10 images in four parts, of unequal size."""
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    other.load_state_dict(model.state_dict())
    inputs, labels = torch.arange(30.0).reshape(10, 3) / 30, torch.arange(10) % 2
    totals = []
    for one, most in ((model, 3), (other, 0)):
        stepper = Stepper(
            one, torch.optim.SGD(one.parameters(), 0.1), Fabric(accelerator="cpu", devices=1), ALONE, most
        )
        totals.append(stepper.step(lambda m, x, y: F.cross_entropy(m(x), y), inputs, labels, 10).item())
    assert totals[0] == pytest.approx(totals[1])
    torch.testing.assert_close(model.weight, other.weight)


def test_summed_micro_batches_are_as_many_gradients_and_the_last_one_is_told():
    """By hand: every part counts as a whole batch would."""
    model = torch.nn.Linear(3, 2)
    before = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    inputs, labels = torch.arange(24.0).reshape(8, 3) / 24, torch.tensor([0, 1, 1, 0, 1, 1, 1, 0])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    stepper = Stepper(model, optimizer, Fabric(accelerator="cpu", devices=1), ALONE, 4, summed=True)
    stepper.step(lambda m, x, y: F.cross_entropy(m(x), y), inputs, labels, 8)
    losses = [
        F.cross_entropy(F.linear(inputs[at::2], before["weight"], before["bias"]), labels[at::2]) for at in (0, 1)
    ]
    sum(losses).backward()
    for name, value in model.named_parameters():
        torch.testing.assert_close(value, before[name] - 0.1 * before[name].grad)
    assert float(stepper.last) == pytest.approx(losses[1].item())


def test_batch_norm_sees_one_micro_batch_at_a_time():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(1, momentum=1.0), torch.nn.Linear(1, 2))
    stepper = Stepper(model, torch.optim.SGD(model.parameters(), 0.1), Fabric(accelerator="cpu", devices=1), ALONE, 2)
    inputs = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    stepper.step(lambda m, x, y: F.cross_entropy(m(x), y), inputs, torch.tensor([0, 1, 0, 1]), 4)
    assert model[0].running_mean.item() == 2.0  # of images 1 and 3: the last ones that it saw


def test_sync_batch_norm_trains_a_converted_copy_and_gives_an_ordinary_network():
    """In one process, where torch's SyncBatchNorm is an ordinary one: the same bits. On several GPUs: not tested."""
    images = torch.randint(0, 256, (20, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    task = Task(0, images, torch.arange(20) % 2, 2, None, Augmentation(1), 1, Fabric(accelerator="cpu", devices=1))
    plain, synchronised = (create_network("resnet8", 1, 2, generator_for(0, "x")) for _ in range(2))
    schedule = Schedule(2, 0.1, 8)
    fit(plain, task, schedule)
    fit(synchronised, replace(task, sync_batch_norm=True), schedule)
    assert not any(isinstance(module, torch.nn.SyncBatchNorm) for module in synchronised.modules())
    for name, value in plain.state_dict().items():
        assert torch.equal(synchronised.state_dict()[name], value)
