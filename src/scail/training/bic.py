"""BiC: distillation, then two numbers per state that undo the bias towards the newest classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Recipe, Schedule, Schedules
from scail.exemplars import aside_places, places
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training.fine_tune import FineTune
from scail.training.joint import Joint
from scail.training.loop import LOOP_VERSION, TrainingDiverged, fit, optimizer_of
from scail.training.losses import distillation_loss, teacher_of, teacher_scores
from scail.training.rates import Rates
from scail.training.task import Task, Trained
from scail.training.trainer import Trainer, check_shapes

BETA_PENALTY = 0.1  # times half the square of beta, as in the authors' code


@dataclass(frozen=True)
class Bic(Trainer):
    """Stage 1: the network, without the held-out images. Stage 2 (`complete`): alpha and beta, on the held-out ones."""

    title = "BiC"
    schedules = ("bic_first", "bic", "bic_correction")
    holds_out = True
    taught = True
    first: Joint
    schedule: Schedule
    """Stage 1."""
    correction: Schedule
    """Stage 2."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """With a state 0 of its own schedule."""
        first = replace(Joint.of(recipe, schedules, total_classes), schedule=schedules["bic_first"])
        return cls(first, schedules["bic"], schedules["bic_correction"])

    def train(self, task: Task) -> Network:
        """The network after stage 1."""
        kept, _ = held_out(task)
        if task.previous is None:
            return self.first.train(task.of(kept))
        teacher = teacher_of(task.previous).to(task.fabric.device)
        past = task.past_classes
        corrected = _corrected_layer(teacher, task.carried, task.fabric.device)
        network = FineTune(self.first, self.schedule, keep_past_rows=True).widened(task, task.previous)
        loss = partial(bias_aware_loss, corrected, past / task.num_classes)
        fit(network, task.of(kept), self.schedule, loss)
        return network

    def set_aside(self, task: Task) -> Tensor:
        """The held-out images."""
        return held_out(task)[1]

    def complete(self, trained: Trained, task: Task) -> dict[str, Tensor]:
        """alpha and beta for the newest classes, learned on the held-out images with the network in evaluation mode."""
        newest = torch.tensor([task.past_classes, task.num_classes])
        plain = {"alpha": torch.ones(()), "beta": torch.zeros(()), "newest": newest}
        rows = held_out(task)[1] if task.past_classes else torch.empty(0, dtype=torch.int64)
        if len((task.labels[rows] >= task.past_classes).unique()) < 2:
            return plain  # nothing is held out, or of one side alone: the correction would run away
        linear = trained.network.linear
        with torch.no_grad():
            scores = torch.addmm(linear.bias, trained.features_ND[rows], linear.weight.T)
        alpha, beta = learn_correction(
            scores, task.labels[rows], task.past_classes, self.correction, task.seed, task.state
        )
        return plain | {"alpha": alpha, "beta": beta}

    def epochs(self, state: int, images: int) -> int:
        """Stage 1 (stage 2 goes through a few stored scores only)."""
        return self.schedule.most_epochs(images) if state else self.first.epochs(state, images)

    def passes(self, state: int, counts: Sequence[int], past: int, budget: tuple[int, int]) -> int:
        """All images but those that are held out."""
        of_past = sum(len(aside_places(count)) for count in counts[:past])
        giving = [(c, count) for c, count in enumerate(counts) if c >= past and count > 1]
        asked = places(_of_new(of_past, past, len(counts) - past), len(giving))
        kept_C = places(budget[1], len(counts))
        away = of_past + sum(_given(count, kept_C[c], n) for (c, count), n in zip(giving, asked, strict=True))
        kept = sum(counts) - away
        return kept * self.epochs(state, kept)

    def settings(self, state: int) -> dict[str, object]:
        """Both stages: the corrected teacher makes the next state depend on stage 2. State 0 holds images out, too."""
        own = {"trainer": "bic", "version": 3}
        if state == 0:
            return {**self.first.settings(state), **own}
        stages = {"stage1": self.schedule.record(), "stage2": self.correction.record()}
        return {**own, "loop": LOOP_VERSION, **stages}

    @classmethod
    def check_carried(cls, carried: Mapping[str, Tensor], classes: int, features: int) -> None:
        """Two numbers, and the range of classes that they are for."""
        check_shapes(carried, {"alpha": (), "beta": (), "newest": (2,)})
        begin, end = carried["newest"].tolist()
        if not 0 <= begin <= end <= classes:
            raise ValueError(f"newest is {[begin, end]}, expected a range of classes")

    @classmethod
    def without_class(cls, carried: Mapping[str, Tensor], label: int) -> dict[str, Tensor]:
        """The range of newest classes moves, and may become empty: then nothing is left to correct."""
        found = dict(carried)
        found["newest"] = found["newest"] - (found["newest"] > label).long()
        if found["newest"][0] == found["newest"][1]:
            found |= {"alpha": torch.ones(()), "beta": torch.zeros(())}
        return found


def held_out(task: Task) -> tuple[Tensor, Tensor]:
    """Rows to train on, and rows held out: ceil(10 %) of each past class's exemplars, and as many of new classes.

    Images of a new class are drawn. Those of them that the memory will keep stand at fixed places there, so that no
    state ever trains on them. A class with one exemplar keeps it for training. New classes give as many as past ones on
    average, so that no side is the larger one by itself, and no fewer than the memory will keep; never more than half
    of a class. Held-out exemplars are exemplars: they count in B.
    """
    rows = [(task.labels == label).nonzero().flatten() for label in range(task.num_classes)]
    past, new = rows[: task.past_classes], range(task.past_classes, task.num_classes)
    chosen = [of[aside_places(len(of))] for of in past]
    of_new = _of_new(sum(map(len, chosen)), len(past), len(new))
    giving = [label for label in new if len(rows[label]) > 1]
    kept_C = places(task.budget if task.budget_after is None else task.budget_after, task.num_classes)
    for label, count in zip(giving, places(of_new, len(giving)), strict=True):
        here = len(rows[label])
        order = torch.randperm(here, generator=generator_for(task.seed, "held out", label))
        chosen.append(rows[label][order[: _given(here, kept_C[label], count)]])
    away = torch.cat(chosen)
    kept = torch.ones(len(task.labels), dtype=torch.bool)
    kept[away] = False
    return kept.nonzero().flatten(), away


def _of_new(of_past: int, past: int, new: int) -> int:
    """Images of new classes that are held out, all together, to be as many as of past ones."""
    return max(1, round(of_past * new / past)) if of_past else 0


def _given(here: int, kept: int, asked: int) -> int:
    """How many of the images of a new class are held out: what is asked, and no fewer than its memory sets aside."""
    return max(len(aside_places(min(here, kept))), min(asked, here // 2))


def _corrected_layer(teacher: Network, carried: object, device: torch.device) -> Network:
    """The previous network with its correction folded into its layer: alpha w, alpha b + beta for the newest rows."""
    assert isinstance(carried, dict)
    begin, end = carried["newest"].tolist()
    alpha, beta = carried["alpha"].to(device), carried["beta"].to(device)
    with torch.no_grad():
        teacher.linear.weight[begin:end] *= alpha
        teacher.linear.bias[begin:end] = alpha * teacher.linear.bias[begin:end] + beta
    return teacher


def bias_aware_loss(teacher: Network, share: float, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """share * distillation + (1 - share) * classification; share = past / all classes."""
    scores, past = model(images), teacher_scores(teacher, images)
    distillation = distillation_loss(scores[:, : past.shape[1]], past)
    return share * distillation + (1 - share) * F.cross_entropy(scores, labels)


def learn_correction(
    scores_NC: Tensor, labels_N: Tensor, past: int, schedule: Schedule, seed: int, state: int
) -> tuple[Tensor, Tensor]:
    """alpha and beta: scores of the classes from `past` on become alpha * score + beta; by steps on cross-entropy.

    beta is penalised.
    """
    alpha, beta = torch.ones((), requires_grad=True), torch.zeros((), requires_grad=True)
    optimizer = optimizer_of([{"params": [alpha, beta]}], schedule, schedule.weight_decay)
    losses = list[float]()
    rates = Rates(schedule, state, len(labels_N))
    while not rates.ended(losses):
        epoch = len(losses)
        optimizer.param_groups[0]["lr"] = rates.next(losses)
        order = torch.randperm(len(labels_N), generator=generator_for(seed, "correction", state, epoch))
        total = 0.0
        for rows in torch.split(order, schedule.batch_size):
            scores = scores_NC[rows]
            corrected = torch.cat([scores[:, :past], alpha * scores[:, past:] + beta], 1)
            loss = F.cross_entropy(corrected, labels_N[rows]) + BETA_PENALTY * beta**2 / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        losses.append(total / len(labels_N))
        if not math.isfinite(losses[-1]):
            raise TrainingDiverged(
                f"state {state}, BiC's stage 2, epoch {epoch + 1}: the loss is {losses[-1]}; lower its rate"
            )
    return alpha.detach(), beta.detach()
