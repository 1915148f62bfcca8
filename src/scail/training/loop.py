"""The one SGD loop that every trainer uses. It can stop after any batch and go on from there, to the bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from torch import Tensor
from torch.optim import SGD

from scail.config import Schedule
from scail.datasets.images.batches import batch_sizes, training_batches
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.runtime.stepper import Stepper, prepared
from scail.training.losses import BatchLoss, cross_entropy
from scail.training.position import Position
from scail.training.rates import Rates, weight_decay
from scail.training.task import Interrupted, Progress, Task

LOOP_VERSION = 1  # raise it when a change of the loop changes results: states trained before are then not reused


class TrainingDiverged(ValueError):
    """The loss is no longer a finite number."""


def fit(
    network: Network, task: Task, schedule: Schedule, loss_of: BatchLoss = cross_entropy, stage: str = "training"
) -> None:
    """Train `network` in place on the task's images. Each `stage` of a training has its own name."""
    with prepared(network, task.fabric.device, task.sync_batch_norm) as model:
        decay = weight_decay(schedule, task.state)
        optimizer = SGD(model.parameters(), schedule.lr, schedule.momentum, weight_decay=decay, foreach=True)
        at = Position(model, optimizer, stage)
        at.resume(task)
        stepper = Stepper(model, optimizer, task.fabric, task.ranks)
        rates = Rates(schedule, task.state, images=sum(_sizes(task, schedule.batch_size)))
        most = rates.most
        while not rates.ended(at.losses):
            epoch = len(at.losses)
            optimizer.param_groups[0]["lr"] = rate = rates.next(at.losses)
            for (images, labels), size in _batches(task, schedule.batch_size, stage, epoch, at.batch):
                at.loss += stepper.step(loss_of, images, labels, size)
                at.batch += 1
                task.report(Progress(epoch, most, size))
                if task.ranks.any(task.stop_asked()):
                    at.save(task)
                    raise Interrupted
            mean_loss = task.ranks.total(float(at.loss)) / rates.images
            if not math.isfinite(mean_loss):
                raise task.ranks.known(_diverged(task.state, epoch, most, stage, mean_loss, rate))
            at.end_epoch(mean_loss)
            at.save(task)
            task.report(Progress(epoch + 1, most, 0, mean_loss))


def _batches(
    task: Task, batch_size: int, stage: str, epoch: int, start: int
) -> Iterator[tuple[tuple[Tensor, Tensor], int]]:
    """This rank's part of each batch of an epoch, from batch `start` on, and how many images the whole batch has."""
    # Drawn from (seed, state, epoch, batch): no batch depends on how the training got here.
    draw = partial(generator_for, task.seed, stage, task.state, epoch)
    sizes = _sizes(task, batch_size)[start:]
    parts = training_batches(
        task.images, task.labels, batch_size, task.augmentation, draw, start, task.ranks, task.half_new
    )
    return zip(parts, sizes, strict=True)


def _sizes(task: Task, batch_size: int) -> list[int]:
    """How many images each batch of an epoch has."""
    if task.half_new:
        return [2 * half for half in batch_sizes(task.half_new, max(1, batch_size // 2))]
    return batch_sizes(len(task.images), batch_size)


def _diverged(state: int, epoch: int, epochs: int, stage: str, loss: float, rate: float) -> TrainingDiverged:
    of_stage = "" if stage == "training" else f" of the {stage}"
    return TrainingDiverged(
        f"state {state}, epoch {epoch + 1} of {epochs}{of_stage}: the loss is {loss} at learning rate {rate:g}; "
        "try a lower learning rate"
    )
