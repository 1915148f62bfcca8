"""Whether a network learned what it was given, and how far its features moved: from numbers at hand, no training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from scail.benchmark.incremental import Step
from scail.benchmark.trajectory import Trajectory
from scail.evaluation import top_k_accuracy
from scail.heads import Evidence, LinearHead
from scail.methods import head_of
from scail.training import Trainer

NEAR_FLOOR, LEAST_TOP1 = 2.0, 50.0
"""A network that is so close to the floor, or so bad on exemplars that it was trained with, has not learned."""


class Rehearsal:
    """Follows the exemplars of a trajectory, from the state where their class was new."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self._first: dict[int, Tensor] = {}  # features of exemplars by their row, when their class was new

    def measure(self, step: Step, test_features_ND: Tensor, test_labels_N: Tensor) -> dict[str, Any]:
        """What a row says of its network; to be called once for each state, in order.

        exemplar_top1 and new_top1: on exemplars of past classes and on the images of new ones, all of which it was
        trained with. initial_top1: on the same exemplars, by the initial classifiers. drift: 1 - the mean cosine of the
        exemplars' features now and when their class was new. floor: the top-1 of whoever knows the newest classes only.
        """
        evidence, state = step.learned.evidence, step.state
        features_ED, labels_E = evidence.exemplar_features_ED, evidence.exemplar_labels_E
        rows, is_past = step.learned.memory.indices.tolist(), labels_E < state.past_classes
        self._first |= {rows[i]: features_ED[i] for i in (~is_past).nonzero().flatten().tolist()}
        past_ED, past_E = features_ED[is_past], labels_E[is_past]
        first = [self._first[rows[i]] for i in is_past.nonzero().flatten().tolist()]
        own = self._own(step)
        exemplar_top1 = top_k_accuracy(own.scores(past_ED), past_E, 1) if len(past_E) else None
        floor = 100 * len(state.class_names) / state.num_classes if state.index else None
        found = {
            "exemplar_top1": exemplar_top1,
            "new_top1": top_k_accuracy(own.scores(evidence.new_features_MD), evidence.new_labels_M, 1),
            "initial_top1": _initial_top1(evidence, past_ED, past_E) if self._has_layer and len(past_E) else None,
            "drift": _drift(past_ED, first) if first else None,
            "floor": floor,
        }
        top1 = top_k_accuracy(own.scores(test_features_ND), test_labels_N, 1)
        at_floor = floor is not None and top1 <= floor + NEAR_FLOOR
        return found | {"learned": not at_floor and (exemplar_top1 is None or exemplar_top1 >= LEAST_TOP1)}

    @property
    def _has_layer(self) -> bool:
        return self.trajectory.kind.own_layer

    def _own(self, step: Step) -> LinearHead:
        """The network's own layer; where something else than that decides, the first method that is read from it."""
        if self._has_layer and self.trajectory.kind.complete is Trainer.complete:
            return LinearHead(step.learned.evidence.weight_CD, step.learned.evidence.bias_C)
        of, options = self.trajectory, self.trajectory.configuration.experiment.heads
        return head_of(of.methods[0], options, step.learned, of.table.methods)


def _drift(now_ED: Tensor, then: Sequence[Tensor]) -> float:
    """1 - the mean cosine of features now and then. Features that came later are left out."""
    width = now_ED.shape[1]
    then_ED = torch.stack([F.pad(one, (0, width - len(one))) for one in then])
    known_ED = torch.arange(width) < torch.tensor([len(one) for one in then])[:, None]
    return 1 - float(F.cosine_similarity(now_ED * known_ED, then_ED, dim=1).mean())


def _initial_top1(evidence: Evidence, features_ED: Tensor, labels_E: Tensor) -> float:
    initial = LinearHead(evidence.initial_weight_CD, evidence.initial_bias_C)
    return top_k_accuracy(initial.scores(features_ED), labels_E, 1)
