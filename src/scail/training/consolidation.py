"""How FearNet's memories are drawn, widened and trained: small layers, on features.

Shapes: N features at hand, D numbers each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Schedule
from scail.networks.two_memories import TwoMemories, two_memories
from scail.runtime.seeds import generator_for
from scail.training.loop import TrainingDiverged
from scail.training.rates import Rates
from scail.training.task import Interrupted, Task

LEAST_SPREAD = 0.01
"""What is made up of a class spreads so many times as far as its features, or the memory is of no use."""
INPUT, INNER = 1.0, 0.1
"""Weights of what is decoded: of the features, and of the hidden layer; a schedule may have others."""


def on_average(groups: Sequence[Tensor]) -> int:
    """How many rows they have on average, one at least."""
    return max(1, round(sum(map(len, groups)) / max(1, len(groups))))


def draw_layers(memories: TwoMemories, task: Task) -> None:
    """Fresh weights for the layers of the long memory, and of the gate."""
    for name in ("encoder", "decoder", "classifier", "gate"):
        generator = generator_for(task.seed, "fearnet", task.state, name)
        for layer in memories.get_submodule(name).modules():
            if isinstance(layer, nn.Linear):
                bound = 1 / math.sqrt(layer.in_features)
                with torch.no_grad():
                    layer.weight.copy_(torch.rand(layer.weight.shape, generator=generator) * (2 * bound) - bound)
                    layer.bias.zero_()


def widened(old: TwoMemories, long: Sequence[int], vectors: Sequence[Tensor], most: int, task: Task) -> TwoMemories:
    """The memories of before for `most` classes of long ago, of which these columns are known; and these vectors."""
    padded = max((len(of) for of in vectors), default=0)
    sizes = old.sizes._replace(long=most, recent=len(vectors), vectors=padded)
    memories = two_memories(old.backbone, sizes)
    draw_layers(memories, task)
    memories.encoder.load_state_dict(old.encoder.state_dict())
    memories.decoder.load_state_dict(old.decoder.state_dict())
    memories.centre_D.copy_(old.centre_D)
    memories.spread_D.copy_(old.spread_D)
    memories.mean_ML.zero_()
    memories.covariance_MLL.zero_()
    with torch.no_grad():
        for name in ("classifier.weight", "classifier.bias", "mean_ML", "covariance_MLL"):
            known = dict(old.state_dict())[name][list(long)]
            memories.state_dict(keep_vars=True)[name][: len(long)] = known
        for number, of in enumerate(vectors):
            assert isinstance(memories.recent, nn.Linear)
            if len(of) == 0:
                raise ValueError(f"FearNet: class {most + number} has no image to remember; give it one at least")
            filled = torch.cat([of, of[:1].expand(padded - len(of), -1)])
            rows = slice(number * padded, (number + 1) * padded)
            memories.recent.weight[rows] = filled
            memories.recent.bias[rows] = -(filled * filled).sum(1) / 2
        memories.count_R.copy_(torch.tensor([len(of) for of in vectors], dtype=torch.int64))
    return memories


def long_memory_loss(memories: TwoMemories, weights: Sequence[float], x_ND: Tensor, labels_N: Tensor) -> Tensor:
    """Classification, and how far the decoder is from the features and from the hidden layer, squared."""
    hidden_NU = memories.encoder[:2](x_ND)
    code_NL = memories.encoder[2](hidden_NU)
    back_NU = memories.decoder[:2](code_NL)
    loss = F.cross_entropy(memories.classifier(code_NL), labels_N)
    loss = loss + weights[0] * F.mse_loss(memories.decoder[2](back_NU), x_ND)
    return loss + weights[1] * F.mse_loss(back_NU, hidden_NU)


def train_long_memory(memories: TwoMemories, x_ND: Tensor, labels_N: Tensor, schedule: Schedule, task: Task) -> None:
    """Train it on these features, and take mean and covariance of each class's codes."""
    weights = schedule.weights((INPUT, INNER))
    layers = nn.ModuleList([memories.encoder, memories.decoder, memories.classifier])
    descend(layers, partial(long_memory_loss, memories, weights), x_ND, labels_N, schedule, task, "long memory")
    with torch.no_grad():
        code_NL = memories.encoder(x_ND).double()
        back_ND = memories.decoder(code_NL.float())
    for label in range(memories.sizes.long):
        own = code_NL[labels_N == label]
        check_spread(x_ND[labels_N == label], back_ND[labels_N == label], label, task.state)
        mean = own.mean(0)
        memories.mean_ML[label] = mean
        memories.covariance_MLL[label] = (own - mean).T @ (own - mean) / max(1, len(own) - 1)


def check_spread(x_ND: Tensor, back_ND: Tensor, label: int, state: int) -> None:
    """An error where what is decoded of a class is the same for all its features, and they are not."""
    spread, back = (float(of.std(0, correction=0).mean()) for of in (x_ND, back_ND))
    if back < LEAST_SPREAD * spread:
        raise ValueError(
            f"state {state}, FearNet: the long memory has collapsed. What it makes up of class {label} (counted from 0 "
            f"as they came) spreads {back / spread:.1e} times as far as the class's features, expected "
            f"{LEAST_SPREAD:g} or more. Train it longer or with less weight decay (schedule "
            "fearnet-sleep, in state 0 fearnet-base: epochs, weight_decay). States before are kept"
        )


def gate_loss(memories: TwoMemories, x_ND: Tensor, recent_N: Tensor) -> Tensor:
    """How well the gate tells recent features from others."""
    return F.binary_cross_entropy_with_logits(memories.gate(x_ND)[:, 0], recent_N)


def train_gate(memories: TwoMemories, vectors: Sequence[Tensor], schedule: Schedule, task: Task) -> None:
    """Train it to tell recent vectors from features that the long memory dreams up, as many of each class."""
    each = on_average(vectors)
    draw = partial(generator_for, task.seed, "fearnet", task.state, "gate")
    long = [memories.decoded(column, each, draw(column)) for column in range(memories.sizes.long)]
    x_ND = torch.cat([*long, *vectors])
    recent_N = torch.cat([torch.zeros(each * len(long)), torch.ones(sum(map(len, vectors)))])
    descend(memories.gate, partial(gate_loss, memories), x_ND, recent_N, schedule, task, "gate")


def descend(
    layers: nn.Module, loss_of: Callable[[Tensor, Tensor], Tensor], x_ND: Tensor, targets_N: Tensor,
    schedule: Schedule, task: Task, what: str,
) -> None:  # fmt: skip
    """Train small layers on features, by Adam with Nesterov's momentum, on the CPU."""
    layers.requires_grad_(True)
    optimizer = torch.optim.NAdam(layers.parameters(), schedule.lr, weight_decay=schedule.weight_decay)
    rates, losses = Rates(schedule, task.state, len(x_ND)), list[float]()
    while not rates.ended(losses):
        optimizer.param_groups[0]["lr"] = rates.next(losses)
        total = 0.0
        for rows in _batches(len(x_ND), schedule, task, what, len(losses)):
            loss = loss_of(x_ND[rows], targets_N[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        losses.append(total / len(x_ND))
        if not math.isfinite(losses[-1]):
            raise TrainingDiverged(
                f"state {task.state}, FearNet's {what}, epoch {len(losses)}: the loss is {losses[-1]} at learning rate "
                f"{schedule.lr:g}; try a lower one, as {schedule.lr / 10:g} (schedule fearnet-sleep, in state 0 "
                "fearnet-base: lr)"
            )
        if task.stop_asked():
            raise Interrupted
    layers.requires_grad_(False)


def _batches(count: int, schedule: Schedule, task: Task, what: str, epoch: int) -> Iterator[Tensor]:
    """Rows of each batch of an epoch."""
    order = torch.randperm(count, generator=generator_for(task.seed, "fearnet", what, task.state, epoch))
    yield from order.split(schedule.batch_size)
