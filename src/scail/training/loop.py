"""The one SGD loop that every trainer uses. It can stop after any batch and go on from there, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from scail.images import training_batches
from scail.network import Network
from scail.recipes import Schedule
from scail.seeding import generator_for
from scail.store import Entry
from scail.training.task import Interrupted, Progress, Task

LOOP_VERSION = 1  # raise it when a change of the loop changes results: states trained before are then not reused


class TrainingDiverged(ValueError):
    """The loss is no longer a finite number."""


def fit(network: Network, task: Task, schedule: Schedule, loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Train `network` in place on the task's images; `loss_of(scores, labels)` is the mean loss of a batch."""
    network.to(task.fabric.device).train()
    lr = schedule.lr / (task.state + 1) if schedule.divide_by_state else schedule.lr
    optimizer = SGD(network.parameters(), lr, schedule.momentum, weight_decay=schedule.weight_decay, foreach=True)
    at = _Position(network, optimizer, _lr_scheduler(optimizer, schedule))
    at.resume(task)
    model, stepper = task.fabric.setup(network, optimizer)
    while at.epoch < schedule.epochs:
        # Drawn from (seed, state, epoch, batch): no batch depends on how the training got here.
        draw = partial(generator_for, task.seed, "batches", task.state, at.epoch)
        for batch in training_batches(task.images, task.labels, schedule.batch_size, task.augmentation, draw, at.batch):
            images, labels = task.fabric.to_device(batch)
            stepper.zero_grad(set_to_none=True)
            loss = loss_of(model(images), labels)
            task.fabric.backward(loss)
            stepper.step()
            at.batch, at.loss = at.batch + 1, at.loss + loss.detach().double() * len(images)
            task.report(Progress(at.epoch, schedule.epochs, len(images)))
            if task.stop_asked():
                at.save(task)
                raise Interrupted
        mean_loss = float(at.loss) / len(task.images)
        if not math.isfinite(mean_loss):
            raise TrainingDiverged(
                f"state {task.state}, epoch {at.epoch + 1} of {schedule.epochs}: the loss is {mean_loss} at learning "
                f"rate {optimizer.param_groups[0]['lr']:g}; try a lower learning rate"
            )
        at.next_epoch(mean_loss)
        at.save(task)
        task.report(Progress(at.epoch, schedule.epochs, 0, mean_loss))


def _lr_scheduler(optimizer: SGD, schedule: Schedule) -> ReduceLROnPlateau | CosineAnnealingLR:
    if schedule.decay == "plateau":
        return ReduceLROnPlateau(optimizer, factor=0.1, patience=schedule.patience)
    return CosineAnnealingLR(optimizer, schedule.epochs)


@dataclass
class _Position:
    """Where the training stands: all that is needed to go on from here."""

    network: Network
    optimizer: SGD
    falling: ReduceLROnPlateau | CosineAnnealingLR
    epoch: int = 0
    batch: int = 0
    loss: Tensor | float = 0.0
    """Sum of the loss over this epoch's images so far."""
    losses: list[float] = field(default_factory=list)
    """Mean loss of each finished epoch."""

    def next_epoch(self, mean_loss: float) -> None:
        if isinstance(self.falling, ReduceLROnPlateau):
            self.falling.step(mean_loss)
        else:
            self.falling.step()
        self.losses.append(mean_loss)
        self.epoch, self.batch, self.loss = self.epoch + 1, 0, 0.0

    def save(self, task: Task) -> None:
        """Weights, momentum, schedule and place in the epoch. Random numbers need none: they follow from the place."""
        if task.checkpoint is None:
            return
        weights = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        momentum = {
            f"momentum.{i}": self.optimizer.state[p]["momentum_buffer"]
            for i, p in enumerate(self.network.parameters())
            if self.optimizer.state[p].get("momentum_buffer") is not None
        }
        facts = {
            "epoch": self.epoch,
            "batch": self.batch,
            "loss": float(self.loss),
            "losses": self.losses,
            "rate": self.optimizer.param_groups[0]["lr"],
            "schedule": {
                k: v for k, v in self.falling.state_dict().items() if isinstance(v, int | float | list | None)
            },
        }
        task.checkpoint.save(Entry(weights | momentum, facts))

    def resume(self, task: Task) -> None:
        """Go on from the checkpoint, if there is one."""
        entry = task.checkpoint.load() if task.checkpoint else None
        if entry is None:
            return
        prefix = "network."
        weights = {k.removeprefix(prefix): v for k, v in entry.tensors.items() if k.startswith(prefix)}
        self.network.load_state_dict(weights)
        for i, p in enumerate(self.network.parameters()):
            if (buffer := entry.tensors.get(f"momentum.{i}")) is not None:
                self.optimizer.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(buffer).detach()
        self.epoch, self.batch, self.loss = entry.facts["epoch"], entry.facts["batch"], entry.facts["loss"]
        self.losses = entry.facts["losses"]
        for epoch, loss in enumerate(self.losses):
            task.report(Progress(epoch + 1, epoch + 1, 0, loss))
        self.falling.load_state_dict(entry.facts["schedule"])
        self.optimizer.param_groups[0]["lr"] = entry.facts["rate"]
