"""The one SGD loop that every trainer uses. It can stop after any batch and go on from there, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from scail.images import training_batches
from scail.network import Network
from scail.recipes import Schedule
from scail.seeding import generator_for
from scail.store import Entry
from scail.training.task import Interrupted, Progress, Task

LOOP_VERSION = 1  # raise it when a change of the loop changes results: states trained before are then not reused


class TrainingDiverged(ValueError):
    """The loss is no longer a finite number."""


BatchLoss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""loss(model, images, labels): the mean loss of a batch."""


def cross_entropy(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The classification loss, from raw scores."""
    return F.cross_entropy(model(images), labels)


def fit(
    network: Network, task: Task, schedule: Schedule, loss_of: BatchLoss = cross_entropy, stage: str = "training"
) -> None:
    """Train `network` in place on the task's images. Each `stage` of a training has its own name."""
    network.to(task.fabric.device).train()
    decay = schedule.weight_decay * (
        schedule.weight_decay_states / (task.state + 1) if schedule.weight_decay_states else 1
    )
    optimizer = SGD(network.parameters(), schedule.lr, schedule.momentum, weight_decay=decay, foreach=True)
    at = _Position(network, optimizer, stage)
    at.resume(task)
    model, stepper = task.fabric.setup(network, optimizer)
    while len(at.losses) < schedule.epochs:
        epoch = len(at.losses)
        optimizer.param_groups[0]["lr"] = learning_rate(schedule, task.state, at.losses)
        # Drawn from (seed, state, epoch, batch): no batch depends on how the training got here.
        draw = partial(generator_for, task.seed, stage, task.state, epoch)
        for batch in training_batches(task.images, task.labels, schedule.batch_size, task.augmentation, draw, at.batch):
            images, labels = task.fabric.to_device(batch)
            stepper.zero_grad(set_to_none=True)
            loss = loss_of(model, images, labels)
            task.fabric.backward(loss)
            stepper.step()
            at.batch, at.loss = at.batch + 1, at.loss + loss.detach().double() * len(images)
            task.report(Progress(epoch, schedule.epochs, len(images)))
            if task.stop_asked():
                at.save(task)
                raise Interrupted
        mean_loss = float(at.loss) / len(task.images)
        if not math.isfinite(mean_loss):
            of_stage = "" if stage == "training" else f" of the {stage}"
            raise TrainingDiverged(
                f"state {task.state}, epoch {epoch + 1} of {schedule.epochs}{of_stage}: the loss is {mean_loss} at "
                f"learning rate {optimizer.param_groups[0]['lr']:g}; try a lower learning rate"
            )
        at.losses, at.batch, at.loss = [*at.losses, mean_loss], 0, 0.0
        at.save(task)
        task.report(Progress(epoch + 1, schedule.epochs, 0, mean_loss))


def learning_rate(schedule: Schedule, state: int, losses: Sequence[float]) -> float:
    """The rate of the next epoch, from the mean training losses of the epochs before: nothing else decides it."""
    rate = schedule.lr / (state + 1) if schedule.divide_by_state else schedule.lr
    if schedule.decay == "cosine":
        return rate * 0.5 * (1 + math.cos(math.pi * len(losses) / schedule.epochs))
    if schedule.decay == "steps":
        return rate / schedule.divide_by ** sum(milestone <= len(losses) for milestone in schedule.milestones)
    best, waited = math.inf, 0
    for loss in losses:
        better = loss < best * (1 - 1e-4)
        best, waited = (loss, 0) if better else (best, waited + 1)
        if waited > schedule.patience:
            rate, waited = rate / schedule.divide_by, 0
    return rate


@dataclass
class _Position:
    """Where the training stands: all that is needed to go on from here."""

    network: Network
    optimizer: SGD
    stage: str
    batch: int = 0
    """Batches done in this epoch."""
    loss: Tensor | float = 0.0
    """Sum of the loss over their images."""
    losses: list[float] = field(default_factory=list)
    """Mean loss of each finished epoch."""

    def save(self, task: Task) -> None:
        """Weights, momentum and place. Random numbers and learning rate need none: they follow from the place."""
        if task.checkpoint is None:
            return
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for i, p in enumerate(self.network.parameters()):
            if (momentum := self.optimizer.state[p].get("momentum_buffer")) is not None:
                tensors[f"momentum.{i}"] = momentum
        task.checkpoint.stage(self.stage).save(
            Entry(tensors, {"batch": self.batch, "loss": float(self.loss), "losses": self.losses})
        )

    def resume(self, task: Task) -> None:
        """Go on from the checkpoint, if there is one."""
        entry = task.checkpoint.stage(self.stage).load() if task.checkpoint else None
        if entry is None:
            return
        weights = {k.removeprefix("network."): v for k, v in entry.tensors.items() if k.startswith("network.")}
        self.network.load_state_dict(weights)
        for i, p in enumerate(self.network.parameters()):
            if (momentum := entry.tensors.get(f"momentum.{i}")) is not None:
                self.optimizer.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(momentum).detach()
        self.batch, self.loss, self.losses = (entry.facts[name] for name in ("batch", "loss", "losses"))
        for epoch, loss in enumerate(self.losses):
            task.report(Progress(epoch + 1, len(self.losses), 0, loss))
