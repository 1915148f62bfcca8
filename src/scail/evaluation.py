"""How well a head does: top-k, averages, forgetting, the gap to Full, and the paper's error, score and weight analyses.

Shapes: N test images, C classes, S states, D features. Accuracies are in percent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import cast

import torch
from torch import Tensor


def top_k_accuracy(scores_NC: Tensor, labels_N: Tensor, k: int) -> float:
    """Percent of images whose true class is among the k highest scores (all classes where there are fewer than k)."""
    best = scores_NC.topk(min(k, scores_NC.shape[1]), dim=1)
    # A class that was excluded (-inf) is not predicted, even where fewer than k classes are left.
    hit = (best.indices == labels_N[:, None]) & (best.values > -torch.inf)
    return 100 * hit.any(1).double().mean().item()


def task_given_accuracy(scores_NC: Tensor, labels_N: Tensor, first_state_C: Tensor) -> float:
    """Top-1 where each image comes with the state in which its class was new: only that state's classes compete.

    >>> scores = torch.tensor([[3.0, 1.0, 9.0], [0.0, 2.0, 1.0]])
    >>> task_given_accuracy(scores, torch.tensor([0, 2]), torch.tensor([0, 0, 1]))
    100.0
    """
    others_NC = first_state_C[None] != first_state_C[labels_N][:, None]
    return top_k_accuracy(scores_NC.masked_fill(others_NC, -torch.inf), labels_N, 1)


def change_interval(before: int, after: int, images: int) -> tuple[float, float]:
    """Between what a change of accuracy is, in points, with 95 % certainty; `before`, `after`: of so many images right.

    Newcombe's interval, out of two of Wilson's. That it was measured on the same images is not used: it is rather wide.

    >>> [round(bound) for bound in change_interval(1, 0, 2)], [round(bound) for bound in change_interval(90, 60, 100)]
    ([-91, 27], [-41, -18])
    """
    (p1, l1, u1), (p2, l2, u2) = (_wilson(right, images) for right in (before, after))
    low = p2 - p1 - math.hypot(p2 - l2, u1 - p1)
    return 100 * low, 100 * (p2 - p1 + math.hypot(u2 - p2, p1 - l1))


def _wilson(right: int, images: int) -> tuple[float, float, float]:
    """A share, and its bounds."""
    share, z = right / images, 1.96
    middle, scale = share + z**2 / (2 * images), 1 + z**2 / images
    spread = z * math.sqrt(share * (1 - share) / images + z**2 / (4 * images**2))
    return share, (middle - spread) / scale, (middle + spread) / scale


def incremental_mean(per_state: Sequence[float]) -> float:
    """The headline: the mean over the incremental states 1..Z-1. State 0 is left out.

    >>> incremental_mean([90.0, 60.0, 50.0])
    55.0
    """
    if len(per_state) < 2:
        raise ValueError(f"{len(per_state)} state(s): the mean over incremental states needs at least two states")
    return sum(per_state[1:]) / len(per_state[1:])


def gap_to_full(accuracies: Sequence[float], full: float | Sequence[float]) -> float:
    """G_IL: the mean over configurations of (accuracy - Full) / (100 - Full). 0: as good as Full; below: worse.

    Accuracies in percent; `full` is one number for all configurations, or one for each.

    >>> round(gap_to_full([80.0, 70.0], 90.0), 2)
    -1.5
    """
    accuracies = [float(a) for a in accuracies]
    fulls = (
        [float(full)] * len(accuracies) if isinstance(full, Real) else [float(f) for f in cast(Sequence[float], full)]
    )
    if len(fulls) != len(accuracies):
        raise ValueError(
            f"{len(accuracies)} accuracies and {len(fulls)} values of Full: expected one each, or one Full"
        )
    if not accuracies:
        raise ValueError("no accuracies: the gap needs at least one")
    for value in (*accuracies, *fulls):
        if not 0 <= value <= 100:
            raise ValueError(f"accuracy {value}: expected percent, 0 to 100")
    if any(f == 100 for f in fulls):
        raise ValueError("Full is 100 %: the gap to it cannot be measured")
    return sum((a - f) / (100 - f) for a, f in zip(accuracies, fulls, strict=True)) / len(fulls)


def pareto_front(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Those that nothing beats: whatever costs no more has a lower value. From the cheapest to the best.

    >>> pareto_front([1, 2, 3, 3, 9], [50, 40, 60, 70, 70])
    [0, 3]
    """
    front = list[int]()
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -values[i])):
        if not front or values[i] > values[front[-1]]:
            front.append(i)
    return front


ERROR_KINDS = ("c(p)", "e(p,p)", "e(p,n)", "c(n)", "e(n,n)", "e(n,p)")
"""Test images of past (p) and new (n) classes: correct, taken for another past class, for another new class."""


def error_counts(predicted_N: Tensor, labels_N: Tensor, past: int) -> dict[str, int]:
    """The six top-1 counts of the paper's error analysis; they add up to the number of test images."""
    of_past, as_past, correct = labels_N < past, predicted_N < past, predicted_N == labels_N
    masks = (
        of_past & correct, of_past & as_past & ~correct, of_past & ~as_past,
        ~of_past & correct, ~of_past & ~as_past & ~correct, ~of_past & as_past,
    )  # fmt: skip
    return {kind: int(mask.sum()) for kind, mask in zip(ERROR_KINDS, masks, strict=True)}


def counts_by_state(predicted_N: Tensor, labels_N: Tensor, first_state_C: Tensor) -> tuple[list[int], list[int]]:
    """Top-1 by the state in which the true class was new: how many test images are right, and how many there are."""
    states, state_N = int(first_state_C[-1]) + 1, first_state_C[labels_N]
    right = torch.bincount(state_N[predicted_N == labels_N], minlength=states)
    return right.tolist(), torch.bincount(state_N, minlength=states).tolist()


def forgetting(by_state: Sequence[Sequence[float]]) -> float | None:
    """Chaudhry et al. (2018): the mean, over the past states, of the best accuracy there ever was minus that of now.

    `by_state[k][j]`: the accuracy after state k on the classes of state j, j <= k. None: there is no past state.

    >>> forgetting([[90.0], [60.0, 80.0], [70.0, 50.0, 80.0]])
    25.0
    """
    *before, now = by_state
    lost = [max(accuracies[j] for accuracies in before[j:]) - now[j] for j in range(len(now) - 1)]
    return sum(lost) / len(lost) if lost else None


def backward_transfer(by_state: Sequence[Sequence[float]]) -> float | None:
    """Lopez-Paz and Ranzato (2017): the mean, over the past states, of the accuracy now minus that right after them.

    >>> backward_transfer([[90.0], [60.0, 80.0], [70.0, 50.0, 80.0]])
    -25.0
    """
    now = by_state[-1]
    gained = [now[j] - by_state[j][j] for j in range(len(now) - 1)]
    return sum(gained) / len(gained) if gained else None


def harmonic_mean(past: float, new: float) -> float:
    """Of two accuracies: high only where both are.

    >>> harmonic_mean(60.0, 30.0), harmonic_mean(0.0, 100.0)
    (40.0, 0.0)
    """
    return 2 * past * new / (past + new) if past + new else 0.0


def past_errors_by_origin(predicted_N: Tensor, labels_N: Tensor, first_state_C: Tensor) -> list[int]:
    """e(p,p) split by the state in which the wrongly predicted class was new: one count per past state."""
    state, past = int(first_state_C[-1]), int((first_state_C < first_state_C[-1]).sum())
    confused = (labels_N < past) & (predicted_N < past) & (predicted_N != labels_N)
    return torch.bincount(first_state_C[predicted_N[confused]], minlength=state).tolist()[:state]


def confusion_matrix(predicted_N: Tensor, labels_N: Tensor, num_classes: int) -> Tensor:
    """C x C counts: row the true class, column the predicted one."""
    flat = torch.bincount(labels_N * num_classes + predicted_N, minlength=num_classes**2)
    return flat.reshape(num_classes, num_classes)


def true_class_scores(scores_NC: Tensor, labels_N: Tensor, past: int) -> dict[str, float | None]:
    """Figures 2a and 3: the mean score of the true class, for test images of past and of new classes.

    Images whose class cannot be predicted at all (no exemplars, nearest mean) have no score and are left out.
    """
    own = scores_NC.gather(1, labels_N[:, None])[:, 0].double()
    groups = {"past": own[(labels_N < past) & own.isfinite()], "new": own[(labels_N >= past) & own.isfinite()]}
    return {name: values.mean().item() if len(values) else None for name, values in groups.items()}


def ranked_weights(weight_CD: Tensor, initial_weight_CD: Tensor, past: int) -> dict[str, list[float]]:
    """Figure 2b: mean |weight| at each rank, largest first: new classes, past classes now, past classes initially."""
    rows = {"new": weight_CD[past:], "past": weight_CD[:past], "past_initial": initial_weight_CD[:past]}
    return {
        name: values.abs().sort(dim=1, descending=True).values.double().mean(0).tolist()
        for name, values in rows.items()
        if len(values)
    }
