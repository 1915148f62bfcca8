"""The one SGD loop that every trainer uses. It can stop after any batch and go on from there, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import SGD

from scail.config.recipes import Schedule
from scail.datasets.images.batches import batch_sizes, training_batches
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.storage.entry import Entry
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
    if task.sync_batch_norm:
        synchronised = nn.SyncBatchNorm.convert_sync_batchnorm(network.clone())
        fit(synchronised, replace(task, sync_batch_norm=False), schedule, loss_of, stage)
        network.to(task.fabric.device).load_state_dict(synchronised.state_dict())
        return
    network.to(task.fabric.device).train()
    decay = schedule.weight_decay * (
        schedule.weight_decay_states / (task.state + 1) if schedule.weight_decay_states else 1
    )
    optimizer = SGD(network.parameters(), schedule.lr, schedule.momentum, weight_decay=decay, foreach=True)
    at = _Position(network, optimizer, stage)
    at.resume(task)
    model, stepper = task.fabric.setup(network, optimizer)
    sizes, ranks = batch_sizes(len(task.images), schedule.batch_size), task.ranks
    own_statistics = [] if ranks.count == 1 else _own_statistics(network)
    while len(at.losses) < schedule.epochs:
        epoch = len(at.losses)
        optimizer.param_groups[0]["lr"] = learning_rate(schedule, task.state, at.losses)
        # Drawn from (seed, state, epoch, batch): no batch depends on how the training got here.
        draw = partial(generator_for, task.seed, stage, task.state, epoch)
        for batch in training_batches(
            task.images, task.labels, schedule.batch_size, task.augmentation, draw, at.batch, ranks
        ):
            images, labels = task.fabric.to_device(batch)
            stepper.zero_grad(set_to_none=True)
            loss = loss_of(model, images, labels) if len(images) else _nothing(network, model, images)
            share = len(images) / sizes[at.batch]
            # DDP takes the mean over ranks: weighted, it is the mean over the images of the whole batch.
            task.fabric.backward(loss if ranks.count == 1 else loss * (share * ranks.count))
            stepper.step()
            ranks.average(own_statistics, share)
            task.report(Progress(epoch, schedule.epochs, sizes[at.batch]))
            at.batch, at.loss = at.batch + 1, at.loss + loss.detach().double() * len(images)
            if ranks.any(task.stop_asked()):
                at.save(task)
                raise Interrupted
        mean_loss = sum(ranks.gathered(float(at.loss))) / len(task.images)
        if not math.isfinite(mean_loss):
            of_stage = "" if stage == "training" else f" of the {stage}"
            diverged = TrainingDiverged(
                f"state {task.state}, epoch {epoch + 1} of {schedule.epochs}{of_stage}: the loss is {mean_loss} at "
                f"learning rate {optimizer.param_groups[0]['lr']:g}; try a lower learning rate"
            )
            raise ranks.known(diverged)
        at.losses, at.batch, at.loss = [*at.losses, mean_loss], 0, 0.0
        at.save(task)
        task.report(Progress(epoch + 1, schedule.epochs, 0, mean_loss))


def _own_statistics(network: Network) -> list[Tensor]:
    """Running means and variances that every rank takes from its own images; synchronised ones are equal anyway."""
    norms = (m for m in network.modules() if isinstance(m, _BatchNorm) and not isinstance(m, nn.SyncBatchNorm))
    return [values for norm in norms for values in (norm.running_mean, norm.running_var) if values is not None]


def _nothing(network: Network, model: nn.Module, images: Tensor) -> Tensor:
    """A loss of 0 for a rank without an image in this batch: it takes part in the exchange of gradients."""
    if any(isinstance(module, nn.SyncBatchNorm) for module in network.modules()):
        return model(images).sum() * 0  # type: ignore[no-any-return]
    network.eval()  # batch norm has nothing to normalise, and learns nothing
    loss: Tensor = model(images).sum() * 0
    network.train()
    return loss


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
    """Sum of the loss over their images, of this rank."""
    losses: list[float] = field(default_factory=list)
    """Mean loss of each finished epoch."""

    def save(self, task: Task) -> None:
        """Weights, momentum and place. Random numbers and learning rate need none: they follow from the place."""
        losses = task.ranks.gathered(float(self.loss))
        if task.checkpoint is None:
            return
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for i, p in enumerate(self.network.parameters()):
            if (momentum := self.optimizer.state[p].get("momentum_buffer")) is not None:
                tensors[f"momentum.{i}"] = momentum
        loss = losses[0] if len(losses) == 1 else losses
        entry = Entry(tensors, {"batch": self.batch, "loss": loss, "losses": self.losses})
        task.ranks.on_first(task.checkpoint.stage(self.stage).save, entry)

    def resume(self, task: Task) -> None:
        """Go on from the checkpoint, if there is one."""
        entry = task.ranks.decided(lambda: task.checkpoint.stage(self.stage).load() if task.checkpoint else None)
        if entry is None:
            return
        try:
            self._take(entry, task)
        except (KeyError, IndexError, TypeError, RuntimeError) as error:  # whole, but not of this training
            assert task.checkpoint is not None
            place = task.checkpoint.stage(self.stage).path
            raise ValueError(f"{place}: not the checkpoint of this training; remove it, and train anew") from error
        for epoch, loss in enumerate(self.losses):
            task.report(Progress(epoch + 1, len(self.losses), 0, loss))

    def _take(self, entry: Entry, task: Task) -> None:
        """Weights, momentum and place of a checkpoint."""
        weights = {k.removeprefix("network."): v for k, v in entry.tensors.items() if k.startswith("network.")}
        self.network.load_state_dict(weights)
        for i, p in enumerate(self.network.parameters()):
            if (momentum := entry.tensors.get(f"momentum.{i}")) is not None:
                self.optimizer.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(momentum).detach()
        self.batch, loss, self.losses = (entry.facts[name] for name in ("batch", "loss", "losses"))
        self.loss = loss[task.ranks.rank] if isinstance(loss, list) else loss
        if not all(isinstance(number, int | float) for number in (self.batch, self.loss, *self.losses)):
            raise TypeError("place")
