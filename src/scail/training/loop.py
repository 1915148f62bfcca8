"""The one loop of steps that every trainer uses. It can stop after any batch and go on from there, to the bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

from scail.config import Schedule
from scail.datasets.images.batches import batch_sizes, training_batches
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.runtime.stepper import Stepper, micro_batches, prepared
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
        optimizer = optimizer_of(_groups(model, schedule), schedule, weight_decay(schedule, task.state))
        at = Position(model, optimizer, stage)
        at.resume(task)
        summed = schedule.sum_micro_batches
        stepper = Stepper(model, optimizer, task.fabric, task.ranks, schedule.micro_batch, summed)
        rates = Rates(schedule, task.state, images=sum(_sizes(task, schedule)))
        most = rates.most
        for done in range(len(at.losses)):
            task.report(_ended(at, rates, done))
        while not rates.ended(at.judged):
            epoch = len(at.losses)
            rate = rates.next(at.judged)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["times"]
            for (images, labels), size in _batches(task, schedule, stage, epoch, at.batch):
                at.loss += stepper.step(loss_of, images, labels, size)
                at.batch, at.last = at.batch + 1, stepper.last
                task.report(Progress(epoch, most, size))
                if task.ranks.any(task.stop_asked()):
                    at.save(task)
                    raise Interrupted
            mean_loss = task.ranks.total(float(at.loss)) / rates.images
            if not math.isfinite(mean_loss):
                raise task.ranks.known(_diverged(task.state, epoch, most, stage, mean_loss, rate))
            at.end_epoch(mean_loss, task.ranks.decided(lambda: float(at.last)) if summed else None)
            at.save(task)
            task.report(_ended(at, rates, epoch))


def optimizer_of(groups: list[dict[str, Any]], schedule: Schedule, decay: float) -> Optimizer:
    """What takes the steps."""
    if schedule.optimizer == "adam":
        return Adam(groups, schedule.lr, (schedule.momentum, 0.999), weight_decay=decay, foreach=True)
    return SGD(groups, schedule.lr, schedule.momentum, weight_decay=decay, foreach=True)


def _groups(network: Network, schedule: Schedule) -> list[dict[str, Any]]:
    """The backbone and the linear layer, and at how many times the rate each of them learns."""
    layer = [*network.linear.parameters()]
    rest = [p for p in network.parameters() if all(p is not of_layer for of_layer in layer)]
    return [{"params": rest, "times": schedule.backbone_rate}, {"params": layer, "times": 1.0}]


def _ended(at: Position, rates: Rates, epoch: int) -> Progress:
    """What is told of an epoch that ended."""
    lowered = None
    if rates.schedule.decay == "plateau":
        lowered = rates.next(at.judged[:epoch]) < rates.next(at.judged[: max(0, epoch - 1)])
    return Progress(epoch + 1, rates.most, 0, at.losses[epoch], lowered)


def _batches(
    task: Task, schedule: Schedule, stage: str, epoch: int, start: int
) -> Iterator[tuple[tuple[Tensor, Tensor], int]]:
    """This rank's part of each batch of an epoch, from batch `start` on, and how many images the whole batch has."""
    # Drawn from (seed, state, epoch, batch): no batch depends on how the training got here.
    draw = partial(generator_for, task.seed, stage, task.state, epoch)
    sizes = _sizes(task, schedule)[start:]
    parts = training_batches(
        task.images, task.labels, schedule.batch_size, task.augmentation, draw, start, task.ranks, task.half_new
    )
    return zip(islice(parts, len(sizes)), sizes, strict=True)


def _sizes(task: Task, schedule: Schedule) -> list[int]:
    """How many images each batch of an epoch has; an incomplete group of summed micro-batches is left out."""
    if task.half_new:
        sizes = [2 * half for half in batch_sizes(task.half_new, max(1, schedule.batch_size // 2))]
    else:
        sizes = batch_sizes(len(task.images), schedule.batch_size)
    groups = [micro_batches(size, schedule.micro_batch) for size in sizes]
    # A state with fewer images than a group has still learns from them.
    return sizes[:-1] if schedule.sum_micro_batches and groups[-1] < groups[0] else sizes


def passes_of_epoch(task: Task, schedule: Schedule) -> int:
    """How many times an epoch goes through the network: once for each batch, or for each of its micro-batches."""
    return sum(micro_batches(size, schedule.micro_batch * task.ranks.count) for size in _sizes(task, schedule))


def _diverged(state: int, epoch: int, epochs: int, stage: str, loss: float, rate: float) -> TrainingDiverged:
    of_stage = "" if stage == "training" else f" of the {stage}"
    return TrainingDiverged(
        f"state {state}, epoch {epoch + 1} of {epochs}{of_stage}: the loss is {loss} at learning rate {rate:g}; "
        "try a lower learning rate"
    )
