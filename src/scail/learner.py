"""One state of an incremental learner: train, update the memory, collect the evidence.

Shapes: C classes, D features, N training images of a state (its new classes' images, then the exemplars).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from scail.exemplars import Memory, herding_order, random_order
from scail.heads import Evidence
from scail.network import Network
from scail.recipes import Select
from scail.seeding import generator_for
from scail.training import Trained


@dataclass(frozen=True)
class Learned:
    """A learner after a state: its network, its exemplars, and what a head may see."""

    network: Network
    memory: Memory
    evidence: Evidence
    carried: Mapping[str, Tensor] = field(default_factory=dict)
    """What its trainer left beside the network, for its own head and for the next state."""


def remember(
    trained: Trained, before: Learned | None, select: Select, budget: int, seed: int,
    carried: Mapping[str, Tensor] | None = None,
) -> Learned:  # fmt: skip
    """The learner after this state. No images are needed: what is kept was seen in training."""
    memory = before.memory if before else Memory(budget)
    orders = _orders_of_new_classes(trained, select, memory.budget, seed)
    memory = memory.add(orders)
    evidence = _evidence(trained, before.evidence if before else None, memory)
    return Learned(trained.network, memory, evidence, carried or {})


def _orders_of_new_classes(trained: Trained, select: Select, budget: int, seed: int) -> list[Tensor]:
    """For each new class, rows of its best images, best first; no more than could ever be kept."""
    orders = []
    for label in torch.unique(trained.new_labels).tolist():
        at = (trained.new_labels == label).nonzero().flatten()
        count = min(len(at), budget // (label + 1))  # a class that arrives as number c never has more places
        if select == "herding":
            chosen = herding_order(trained.features_ND[at], count)
        else:
            chosen = random_order(trained.features_ND[at], count, generator_for(seed, "exemplars", label))
        orders.append(trained.new_indices[at[chosen]])
    return orders


def _evidence(trained: Trained, before: Evidence | None, memory: Memory) -> Evidence:
    """What a head may see, from the layer, the features of this state's training images, and the evidence before."""
    seen = int(trained.new_labels.max()) + 1  # a layer may have rows for classes that are still to come
    weight_CD, bias_C = (p.detach()[:seen].cpu().clone() for p in trained.network.linear.parameters())
    new = len(trained.new_indices)
    labels = torch.cat([trained.new_labels, trained.exemplar_labels])
    scores_NC = torch.addmm(bias_C, trained.features_ND, weight_CD.T)
    own_score_C, count_C = _mean_own_score(scores_NC, labels, len(bias_C))
    past = 0 if before is None else len(before.bias_C)
    state = 0 if before is None else before.state + 1
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
        top_score_S=_extend(before, "top_score_S", scores_NC[:new].amax(1).mean()[None]),
        exemplar_features_ED=trained.features_ND[kept],
        exemplar_labels_E=memory.labels,
        new_features_MD=trained.features_ND[:new],
        new_labels_M=trained.new_labels,
    )


def _extend(before: Evidence | None, name: str, new: Tensor) -> Tensor:
    """What was known before under this name, and the new values after it."""
    return new if before is None else torch.cat([getattr(before, name), new])


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
