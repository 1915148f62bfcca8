"""A head and a selection are tried on made-up numbers, in milliseconds: what has a wrong shape is told before a run.

Shapes: C classes in two states, D features, E exemplars, M training images of the new classes, N images to score.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from scail.config import Select
from scail.exemplars import Selection, checked_order
from scail.heads import Evidence, LinearHead
from scail.methods import Method
from scail.moments import Moments

_CLASSES, _PAST, _FEATURES, _EACH, _SCORED = 5, 3, 7, 4, 6


def made_up_evidence(frozen: bool = False, exemplars: int = _EACH) -> Evidence:
    """Evidence after two states, three classes old and two new; `exemplars` of each class. Always the same."""
    draw = torch.Generator().manual_seed(0)
    means_CD = torch.rand(_CLASSES, _FEATURES, generator=draw)
    labels_N = torch.arange(_CLASSES).repeat_interleave(_EACH)
    features_ND = means_CD[labels_N] + 0.1 * torch.rand(len(labels_N), _FEATURES, generator=draw)
    weight_CD, bias_C = means_CD - means_CD.mean(0), torch.zeros(_CLASSES)
    new, kept = labels_N >= _PAST, torch.arange(len(labels_N)) % _EACH < exemplars
    scores_NC = features_ND @ weight_CD.T
    own_C = torch.zeros(_CLASSES).index_add_(0, labels_N, scores_NC.gather(1, labels_N[:, None])[:, 0]) / _EACH
    moments = Moments.of(features_ND, labels_N, _CLASSES) if frozen else None
    return Evidence(
        weight_CD=weight_CD[:, :0] if frozen else weight_CD,
        bias_C=bias_C,
        initial_weight_CD=weight_CD[:, :0] if frozen else 1.5 * weight_CD,
        initial_bias_C=bias_C.clone(),
        first_state_C=(torch.arange(_CLASSES) >= _PAST).long(),
        train_count_C=torch.full((_CLASSES,), _EACH),
        initial_score_C=own_C,
        exemplar_score_C=own_C.clone(),
        top_score_S=torch.stack([scores_NC[~new].amax(1).mean(), scores_NC[new].amax(1).mean()]),
        exemplar_features_ED=features_ND[kept],
        exemplar_labels_E=labels_N[kept],
        new_features_MD=features_ND[new],
        new_labels_M=labels_N[new],
        moments=moments,
    )


def check_head(where: str, method: Method) -> None:
    """An error at `where` unless the head is a function of the evidence that scores every class.

    One that takes values from its trainer is tried when they are there.
    """
    given = _options_of(where, method.head, method)
    if method.carried:
        return
    found = method.head(made_up_evidence(method.kind.frozen), **given)
    if not isinstance(found, LinearHead):
        raise ValueError(f"{where}: the head of {method.label} gave {_shown(found)}; expected a scail.LinearHead")
    check_scores(where, method.label, found, _CLASSES, torch.ones(_SCORED, _FEATURES))


def _options_of(where: str, head: Callable[..., object], method: Method) -> dict[str, object]:
    """What the head is called with beside the evidence; an error if it does not take that."""
    known: dict[str, object] = {"candidates": 10, "as_published": False}
    given = {name: known[name] for name in method.options}
    try:
        inspect.signature(head).bind(None, **given, **dict.fromkeys(method.carried))
    except TypeError as error:
        raise ValueError(f"{where}: the head of {method.label} cannot be called with the evidence: {error}") from None
    except ValueError:
        pass  # it does not say what it takes
    return given


def check_scores(where: str, label: str, head: LinearHead, classes: int, features_ND: Tensor) -> Tensor:
    """The head's scores; an error at `where` unless there is one for each image and class, a number."""
    weight, bias = tuple(head.weight_CD.shape), tuple(head.bias_C.shape)
    expected = (classes * head.proxies, features_ND.shape[1])
    if weight != expected or bias != (classes,):
        raise ValueError(
            f"{where}: the head of {label} has weight {weight} and bias {bias} for {classes} classes and "
            f"{expected[1]} features; expected {expected} and {(classes,)}"
        )
    scores = head.scores(features_ND.to(head.weight_CD.dtype))
    if scores.isnan().any() or (scores == torch.inf).any() or (scores == -torch.inf).all(1).any():
        raise ValueError(f"{where}: scores of the head of {label} are not numbers, or leave an image without a class")
    return scores


def check_selection(where: str, select: Select | Selection | None) -> None:
    """An error at `where` unless a selection of one's own gives indices, and as many as it is asked for."""
    if not callable(select):
        return
    features_ND = F.normalize(torch.rand(9, _FEATURES, generator=torch.Generator().manual_seed(1)), dim=1)
    for count in (0, 4, 9):
        try:
            checked_order(select(features_ND.clone(), count), len(features_ND), count, select)
        except ValueError as error:
            raise ValueError(str(error) if ", line " in str(error) else f"{where}: {error}") from error


def _shown(found: object) -> str:
    return f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
