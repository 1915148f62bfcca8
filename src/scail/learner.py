"""One state of an incremental learner: train, update the memory, collect the evidence.

The benchmark and the classifier that keeps learning both go through these functions.

Shapes: C classes, D features, N training images of a state: its new classes' images, then the exemplars, then further
images of past classes, if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from scail.config import Select
from scail.exemplars import (
    Memory,
    Selection,
    aside_places,
    checked_order,
    exemplar_draw,
    herding_order,
    random_order,
    with_aside,
)
from scail.heads import Evidence
from scail.moments import Moments
from scail.networks.cosine_linear import CosineLinear
from scail.networks.int8 import in_int8
from scail.networks.network import Network
from scail.training import Progress, Task, Trained, Trainer

_PART = 128
"""Images of a frozen network between two reports of its progress."""


@dataclass(frozen=True)
class Learned:
    """A learner after a state: its network, its exemplars, and what a head may see."""

    network: Network
    memory: Memory
    evidence: Evidence
    carried: Mapping[str, Tensor] = field(default_factory=dict)
    """What its trainer left beside the network, for its own head and for the next state."""


@dataclass(frozen=True)
class Rows:
    """Where the images of a task stand in the data that they were taken from."""

    new: Tensor
    """Rows of the new classes' images: the first images of the task."""
    exemplars: Tensor
    """Rows of the others: the exemplars, then further images of past classes."""


def train_state(trainer: Trainer, task: Task, rows: Rows) -> Trained:
    """Train a state, and take the features of all its images by the new network, in 32 bits whatever it trained in.

    Where the task asks for 8 bits, the network runs in them from here on.
    """
    network = trainer.train(task)
    _check_network(network, trainer, task)
    network.eval()
    if task.int8 and task.previous is None:
        assert isinstance(task.images, Tensor)
        network = in_int8(network, task.images)
    features = _features(trainer, network, task, len(rows.new))
    network.cpu()
    new_labels, exemplar_labels = task.labels.split([len(rows.new), len(rows.exemplars)])
    return Trained(network, rows.new, new_labels, rows.exemplars, exemplar_labels, features)


def _check_network(network: object, trainer: Trainer, task: Task) -> None:
    """An error where a trainer gave no network, or one that cannot tell all classes apart."""
    if not isinstance(network, Network):
        raise ValueError(
            f"trainer {trainer.title}: train(task) gave {type(network).__name__} in state {task.state}; expected the "
            "Network after this state"
        )
    rows = network.linear.out_features
    if rows < task.num_classes and not trainer.frozen:
        raise ValueError(
            f"trainer {trainer.title}: the network has {rows} outputs after state {task.state}, and {task.num_classes} "
            "classes were seen; widen it with network.recreate_linear(task.num_classes, generator, keep_past=True)"
        )


def _features(trainer: Trainer, network: Network, task: Task, new: int) -> Tensor:
    """Features of all images of the task. Where the network does not move, those of the exemplars are known."""
    if task.exemplar_features_ED is None or not trainer.frozen:
        return trainer.extract(network, task.images, task.ranks)
    rows = torch.arange(len(task.images))
    fresh = torch.cat([rows[:new], rows[new + task.exemplars :]])
    found, done = [torch.empty(0, network.feature_size)], 0
    for part in fresh.split(_PART):
        found.append(trainer.extract(network, task.images[part], task.ranks))
        done += len(part)
        task.report(Progress(done, len(fresh), len(part), unit="image"))
    first, more = torch.cat(found).split([new, len(fresh) - new])
    known = task.exemplar_features_ED if task.exemplars else first[:0]
    return torch.cat([first, known, more])


def remember(
    trained: Trained, before: Learned | None, select: Select | Selection, budget: int, seed: int,
    carried: Mapping[str, Tensor] | None = None, aside: Tensor | None = None,
) -> Learned:  # fmt: skip
    """The learner after this state. No images are needed: what is kept was at hand in training.

    Where more images of a past class than its exemplars took part, the best of all of them stay. A memory may grow.
    `aside`: rows of the task that were not trained on (`Trainer.set_aside`).
    """
    memory = replace(before.memory, budget=max(budget, before.memory.budget)) if before else Memory(budget)
    choose = _Choice(select, memory.budget, seed, torch.empty(0, dtype=torch.int64) if aside is None else aside)
    seen_again = _orders_of_past_classes(trained, memory, choose)
    rows = torch.arange(len(trained.new_labels))
    memory = memory.reorder(seen_again).add(
        _orders(trained.new_labels, trained.new_indices, trained.features_ND, rows, choose)
    )
    moments = Moments.carried_in(carried or {})
    evidence = _evidence(trained, before.evidence if before else None, memory, moments)
    return Learned(trained.network, memory, evidence, carried or {})


@dataclass(frozen=True)
class _Choice:
    """How exemplars are chosen."""

    select: Select | Selection
    budget: int
    seed: int
    aside: Tensor
    """Rows of the task that were not trained on: of each class some, in an order of their own."""

    def order(self, features_ND: Tensor, count: int, label: int) -> Tensor:
        """`count` images of a class, best first."""
        if self.select == "herding":
            return herding_order(features_ND, count)
        if self.select == "random":
            return random_order(features_ND, count, exemplar_draw(self.seed, label))
        return checked_order(self.select(features_ND, count), len(features_ND), count, self.select)


def _orders(labels: Tensor, indices: Tensor, features_ND: Tensor, rows: Tensor, choose: _Choice) -> list[Tensor]:
    """For each class among the labels, rows of its best images, best first; no more than could ever be kept.

    `rows`: where the images stand in the task, ascending.
    """
    orders = []
    for label in torch.unique(labels).tolist():
        at = (labels == label).nonzero().flatten()
        count = min(len(at), choose.budget // (label + 1))  # a class that arrives as number c never has more places
        own = choose.aside[torch.isin(choose.aside, rows[at])][: len(aside_places(count))]
        aside = at[torch.searchsorted(rows[at], own)]
        others = at[~torch.isin(at, aside)]
        chosen = others[choose.order(features_ND[others], count - len(aside), label)]
        orders.append(indices[with_aside(chosen, aside)])
    return orders


def _orders_of_past_classes(trained: Trained, memory: Memory, choose: _Choice) -> dict[int, Tensor]:
    """New orders for the past classes of which there were more images than their exemplars."""
    at_hand = torch.bincount(trained.exemplar_labels, minlength=len(memory.exemplars))
    again = [c for c, kept in enumerate(memory.exemplars) if int(at_hand[c]) > len(kept)]
    among = torch.isin(trained.exemplar_labels, torch.tensor(again, dtype=torch.int64))
    new = len(trained.new_indices)
    rows = new + among.nonzero().flatten()
    found = _orders(
        trained.exemplar_labels[among], trained.exemplar_indices[among], trained.features_ND[rows], rows, choose
    )
    return dict(zip(again, found, strict=True))


def _evidence(trained: Trained, before: Evidence | None, memory: Memory, moments: Moments | None) -> Evidence:
    """What a head may see, from the layer, the features of this state's training images, and the evidence before.

    Without new classes the state does not advance: the classes of the newest state stay the new ones, for every head,
    with what is at hand of them now.
    """
    past = 0 if before is None else len(before.bias_C)
    seen = len(memory.exemplars)  # a layer may have rows for classes that are still to come
    labels = torch.cat([trained.new_labels, trained.exemplar_labels])
    if moments is None:
        weight_CD, bias_C, scores_NC = _layer(trained, seen)
    else:  # no layer: rows without columns
        weight_CD, bias_C, scores_NC = torch.zeros(seen, 0), torch.zeros(seen), torch.zeros(len(labels), seen)
    own_score_C, count_C = _mean_own_score(scores_NC, labels, len(bias_C))
    state = 0 if before is None else before.state + (seen > past)
    new = slice(len(trained.new_indices)) if seen > past or before is None else labels >= before.past
    kept = _rows_of_exemplars(trained, memory)
    exemplar_score_C, _ = _mean_own_score(scores_NC[kept], memory.labels, len(bias_C))
    first_state_new = torch.full((len(bias_C) - past,), state)
    return Evidence(
        weight_CD=weight_CD,
        bias_C=bias_C,
        initial_weight_CD=_extend(before, "initial_weight_CD", weight_CD[past:]),
        initial_bias_C=_extend(before, "initial_bias_C", bias_C[past:]),
        first_state_C=_extend(before, "first_state_C", first_state_new),
        train_count_C=count_C,
        initial_score_C=_extend(before, "initial_score_C", own_score_C[past:]),
        exemplar_score_C=exemplar_score_C,
        top_score_S=_top_scores(before, state, scores_NC[new]),
        exemplar_features_ED=trained.features_ND[kept],
        exemplar_labels_E=memory.labels,
        new_features_MD=trained.features_ND[new],
        new_labels_M=labels[new],
        moments=moments,
    )


def _layer(trained: Trained, seen: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and biases of the classes seen, and the scores of all images."""
    layer = trained.network.linear
    if isinstance(layer, CosineLinear):
        with torch.no_grad():
            return layer.scaled_rows()[:seen], torch.zeros(seen), layer(trained.features_ND)[:, :seen]
    weight_CD, bias_C = (p.detach()[:seen].cpu().clone() for p in layer.parameters())
    return weight_CD, bias_C, torch.addmm(bias_C, trained.features_ND, weight_CD.T)


def _top_scores(before: Evidence | None, state: int, scores_MC: Tensor) -> Tensor:
    """Per state the mean top score of its new classes' images; the current state's as the present network gives it."""
    past_S = torch.empty(0) if before is None else before.top_score_S
    if len(scores_MC) == 0:
        return past_S  # none of its images is at hand any more: what was measured in its training stays
    return torch.cat([past_S[:state], scores_MC.amax(1).mean()[None]])


def _extend(before: Evidence | None, name: str, new: Tensor) -> Tensor:
    """What was known before under this name, and the new values after it. A row of before has nothing to say of
    features that came later: zeros."""
    if before is None:
        return new
    past: Tensor = getattr(before, name)
    return torch.cat([F.pad(past, (0, new.shape[1] - past.shape[1])) if new.ndim == 2 else past, new])


def _mean_own_score(scores_NC: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Per class the mean score of its own images (0 where there are none), and how many there are."""
    own = scores_NC.gather(1, labels[:, None])[:, 0]
    count_C = torch.bincount(labels, minlength=num_classes)
    return torch.zeros(num_classes).index_add_(0, labels, own) / count_C.clamp(min=1), count_C


def _rows_of_exemplars(trained: Trained, memory: Memory) -> Tensor:
    """Where in `trained.features_ND` the exemplars now in memory stand: all of them took part in the training."""
    took_part = torch.cat([trained.new_indices, trained.exemplar_indices])
    order = took_part.argsort()
    rows = order[torch.searchsorted(took_part[order], memory.indices).clamp(max=len(order) - 1)]
    assert torch.equal(took_part[rows], memory.indices)
    return rows
