"""The evidence of one's own trainings: any linear layer and any features, from wherever they come.

Shapes: C classes seen so far, D features, N training images of a state, E exemplars in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from scail.heads.evidence import Evidence

OwnState = tuple[Tensor, Tensor, Tensor, Tensor]
"""What one state left: weight_CD and bias_C of the layer, features_ND and labels_N of the images it was trained on."""


def evidence_of(states: Sequence[OwnState], exemplars_E: Tensor | None = None) -> Evidence:
    """What heads may see after these states, oldest first.

    Each state has the layer as it was learned then, for all classes seen by then, and the features of its training
    images by its network: those of its new classes, and exemplars of past ones. Labels count classes by arrival.
    `exemplars_E`: rows of the last state's images that are kept. None: all of past classes, and of each new class as
    many as the largest of the past classes has, the first ones.

    >>> layer = torch.eye(3)
    >>> first = (layer[:2], torch.zeros(2), torch.eye(3)[:2], torch.tensor([0, 1]))
    >>> second = (layer, torch.zeros(3), torch.eye(3), torch.tensor([0, 1, 2]))
    >>> evidence_of([first, second]).first_state_C.tolist()
    [0, 0, 1]
    """
    _check(states)
    weight_CD, bias_C, features_ND, labels_N = states[-1]
    seen = [0, *(len(bias) for _, bias, _, _ in states)]
    initial = [(w[past:], b[past:]) for (w, b, _, _), past in zip(states, seen[:-1], strict=True)]
    scores_NC = torch.addmm(bias_C, features_ND, weight_CD.T)
    past = seen[-2]
    new_N = labels_N >= past
    if exemplars_E is None:
        exemplars_E = _first_of_each(labels_N, past)
    own, tops = _when_new(states, seen)
    kept = _mean_own_score(scores_NC[exemplars_E], labels_N[exemplars_E], seen[-1])
    return Evidence(
        weight_CD=weight_CD,
        bias_C=bias_C,
        initial_weight_CD=torch.cat([weight for weight, _ in initial]),
        initial_bias_C=torch.cat([bias for _, bias in initial]),
        first_state_C=torch.cat([torch.full((len(bias),), k) for k, (_, bias) in enumerate(initial)]),
        train_count_C=torch.bincount(labels_N, minlength=seen[-1]),
        initial_score_C=torch.cat(own),
        exemplar_score_C=kept,
        top_score_S=torch.stack(tops),
        exemplar_features_ED=features_ND[exemplars_E],
        exemplar_labels_E=labels_N[exemplars_E],
        new_features_MD=features_ND[new_N],
        new_labels_M=labels_N[new_N],
    )


def _when_new(states: Sequence[OwnState], seen: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
    """For each state, of its new classes: each one's mean score on its own images, and the mean top score of all."""
    own, tops = [], []
    for (weight_CD, bias_C, features_ND, labels_N), past in zip(states, seen[:-1], strict=True):
        scores_NC = torch.addmm(bias_C, features_ND, weight_CD.T)
        own.append(_mean_own_score(scores_NC, labels_N, len(bias_C))[past:])
        tops.append(scores_NC[labels_N >= past].amax(1).mean())
    return own, tops


def _mean_own_score(scores_NC: Tensor, labels_N: Tensor, classes: int) -> Tensor:
    own = scores_NC.gather(1, labels_N[:, None])[:, 0]
    count_C = torch.bincount(labels_N, minlength=classes).clamp(min=1)
    return torch.zeros(classes).index_add_(0, labels_N, own) / count_C


def _first_of_each(labels_N: Tensor, past: int) -> Tensor:
    count_C = torch.bincount(labels_N)
    most = int(count_C[:past].max()) if past else int(count_C.max())
    return torch.cat([(labels_N == label).nonzero().flatten()[:most] for label in range(len(count_C))])


def _check(states: Sequence[OwnState]) -> None:
    """A ValueError for what cannot be the states of one learner."""
    if not states:
        raise ValueError("no states: expected (weight, bias, features, labels) of each, oldest first")
    past = 0
    for k, (weight_CD, bias_C, features_ND, labels_N) in enumerate(states):
        classes = len(bias_C)
        if weight_CD.shape != (classes, features_ND.shape[1]):
            raise ValueError(
                f"state {k}: weight is {tuple(weight_CD.shape)}, expected {(classes, features_ND.shape[1])}: a row for "
                "each value of the bias, a column for each feature"
            )
        if len(labels_N) != len(features_ND):
            raise ValueError(f"state {k}: {len(features_ND)} features and {len(labels_N)} labels, expected as many")
        if classes <= past:
            raise ValueError(f"state {k}: {classes} classes after {past}; each state has new classes, as further rows")
        known = set(labels_N.tolist())
        if labels_N.dtype != torch.int64 or not known <= set(range(classes)):
            raise ValueError(f"state {k}: expected labels as integers from 0 to {classes - 1}")
        if missing := set(range(past, classes)) - known:
            raise ValueError(f"state {k}: no images of class {min(missing)}, which is new there")
        past = classes
