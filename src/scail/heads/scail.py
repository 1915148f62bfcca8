"""ScaIL: initial classifiers of past classes, scaled to the statistics of the new classes.

The paper's two equations. State i brought P_i classes; C_i^j is the initial classifier of class j: the D weights of its
row as learned in its first state i. The current state is k.

    mu_i^rank = 1 / P_i * sum_j |w^rank(C_i^j)|           (1)  w^rank: the weight of this rank, by magnitude
    w_sc^h(C_sc^j) = mu_k^r(h) / mu_i^r(h) * w^h(C_i^j)   (2)  r(h): the rank of weight h in its row, largest first

Shapes: C classes, D features and as many ranks, S states, R rows of a few classes.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead
from scail.heads.sorting import empty_ranks, few_rows, sort_descending, write_ranks

Array = TypeVar("Array", Tensor, NDArray[np.floating])


def scail(evidence: Evidence, candidates: int | None = 10, as_published: bool = False) -> LinearHead:
    """The ScaIL layer: scaled initial rows for past classes, the current rows for new ones.

    Only the `candidates` past classes with the highest raw (FT) scores can be predicted for an image; None: all of
    them. `as_published` reads the factors as the authors' code does: by the argsort of the signed weights instead of
    the rank of the magnitudes, and with a bias factor that is a ratio of class counts.
    """
    if candidates is not None and candidates < 1:
        raise ValueError(f"candidates is {candidates}, expected 1 or more, or None for all past classes")
    past, first_state_C = evidence.past, evidence.first_state_C
    weight_CD = _scaled(evidence.weight_CD, evidence.initial_weight_CD, first_state_C, as_published)
    if as_published:
        seen_S = torch.bincount(first_state_C).cumsum(0).float()  # classes, by the end of each state
        bias_C = evidence.bias_C.clone()
        bias_C[:past] = evidence.initial_bias_C[:past] * (seen_S[-1] / seen_S)[first_state_C[:past]]
    else:  # the paper has no biases; one is scaled like a row with a single weight
        bias_C = _scaled(evidence.bias_C[:, None], evidence.initial_bias_C[:, None], first_state_C)[:, 0]
    return LinearHead(
        weight_CD,
        bias_C,
        raw_weight_CD=evidence.weight_CD,
        raw_bias_C=evidence.bias_C,
        candidates=candidates,
        past=past,
    )


def _scaled(current_CD: Tensor, initial_CD: Tensor, first_state_C: Tensor, as_published: bool = False) -> Tensor:
    """The layer: the current rows of new classes, the initial rows of past ones scaled by equation 2.

    A few rows at a time: beside the result, memory is needed for half of it, whatever the number of classes.
    """
    new_C = first_state_C == first_state_C.max()
    w_CD = torch.where(new_C[:, None], current_CD, initial_CD)
    r_CD, P_S = empty_ranks(w_CD), torch.bincount(first_state_C)
    mu_SD = w_CD.new_zeros(len(P_S), w_CD.shape[1])
    # Equation 1: mu_i^rank = 1 / P_i * sum_j |w^rank(C_i^j)|
    for w_RD, r_RD, i_R in few_rows(w_CD, r_CD, first_state_C):
        mu_SD.index_add_(0, i_R, _ranked(w_RD, r_RD, as_published))
    mu_SD /= P_S[:, None].clamp(min=1)
    # Equation 2: w_sc^h = mu_k^r(h) / mu_i^r(h) * w^h(C_i^j); where i = k the ratio is exactly 1
    ratio_SD = _ratio(mu_SD[-1], mu_SD)
    for w_RD, r_RD, i_R in few_rows(w_CD, r_CD, first_state_C):
        w_RD *= ratio_SD[i_R].gather(1, r_RD.long())
    return w_CD


def _ranked(w_RD: Tensor, r_RD: Tensor, as_published: bool) -> Tensor:
    """|w^rank|, the magnitudes of each row from the largest down; the rank r(h) of each weight is written to `r_RD`."""
    ranked_RD, order_RD = sort_descending(w_RD.abs())
    if as_published:
        r_RD.copy_(sort_descending(w_RD)[1])
    else:
        write_ranks(r_RD, order_RD)
    return ranked_RD


def _ratio(mu_k: Tensor, mu_i: Tensor) -> Tensor:
    """mu_k / mu_i; 1 where either mean is zero, which tells nothing about scale."""
    usable = (mu_i != 0) & (mu_k != 0)
    return torch.where(usable, mu_k / torch.where(mu_i != 0, mu_i, 1), 1)


def scale_past_weights(current: Array, initial: Array, first_state: Array) -> Array:
    """The bare equation: the layer with the initial rows of past classes scaled to the newest state's statistics.

    `current` and `initial` are class x feature arrays (the layer now; every row as it was in its class's first state),
    `first_state` says in which state each class was new; the newest state is the current one. NumPy or torch in, the
    same kind out; rows of new classes come back as they are in `current`.

    >>> import numpy as np
    >>> current = np.array([[9.0, 9.0], [2.0, -1.0]])
    >>> initial = np.array([[4.0, -4.0], [2.0, -1.0]])
    >>> scale_past_weights(current, initial, np.array([0, 1]))
    array([[ 2., -1.],
           [ 2., -1.]])
    """
    kinds = {isinstance(array, Tensor) for array in (current, initial, first_state)}
    if len(kinds) > 1:
        raise ValueError("current, initial and first_state: expected all torch tensors or all NumPy arrays, not both")
    # Copied, so that any memory layout is welcome.
    weight, rows, first = (
        a if isinstance(a, Tensor) else torch.tensor(a.copy()) for a in (current, initial, first_state)
    )
    if weight.ndim != 2 or rows.shape != weight.shape:
        raise ValueError(f"current {tuple(weight.shape)}, initial {tuple(rows.shape)}: expected both class x feature")
    if first.shape != weight.shape[:1] or len(first) == 0 or first.is_floating_point() or first.dtype == torch.bool:
        raise ValueError(
            f"first_state of shape {tuple(first.shape)}: expected one whole number for each of {len(weight)} rows"
        )
    # States are numbered anew, 0..S-1, in their order: gaps in the numbers do no harm.
    scaled = _scaled(weight, rows, torch.unique(first, return_inverse=True)[1])
    return scaled if isinstance(current, Tensor) else scaled.numpy()
