"""ScaIL: initial classifiers of past classes, scaled to the statistics of the new classes.

Shapes: C classes, D features, S states.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.heads.evidence import Evidence, LinearHead

_ROWS = 256  # sorted at a time: they stay in the cache
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
    weight_CD = _scale_rows(evidence.weight_CD, evidence.initial_weight_CD, first_state_C, as_published)
    bias_C = evidence.bias_C.clone()
    if as_published:
        factor_S = _classes_seen(first_state_C)[-1] / _classes_seen(first_state_C)
    else:
        magnitude_S = _state_means(
            _latest(evidence.bias_C, evidence.initial_bias_C, past)[:, None].abs(), first_state_C
        )[:, 0]
        factor_S = _ratio(magnitude_S[-1], magnitude_S)
    bias_C[:past] = evidence.initial_bias_C[:past] * factor_S[first_state_C[:past]]
    return LinearHead(
        weight_CD,
        bias_C,
        raw_weight_CD=evidence.weight_CD,
        raw_bias_C=evidence.bias_C,
        candidates=candidates,
        past=past,
    )


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
    scaled = _scale_rows(weight, rows, torch.unique(first, return_inverse=True)[1], as_published=False)
    return scaled if isinstance(current, Tensor) else scaled.numpy()


def _scale_rows(current_CD: Tensor, initial_CD: Tensor, first_state_C: Tensor, as_published: bool) -> Tensor:
    """Each past row w becomes mu_k[r(h)] / mu_i[r(h)] * w[h]; i: the row's first state, k: the newest.

    A few hundred rows R at a time: beside the result, memory is needed for half of it, whatever the number of
    classes. Rows of the newest state have factors of exactly 1.
    """
    new_C = first_state_C == first_state_C.max()
    scaled_CD = torch.where(new_C[:, None], current_CD, initial_CD)
    short = torch.int16 if scaled_CD.shape[1] < 2**15 else torch.int32
    # In one piece: many small ones, with what is freed between them, would take half as much again.
    order_CD = torch.empty_like(scaled_CD, dtype=short)
    chunks = list(zip(scaled_CD.split(_ROWS), first_state_C.split(_ROWS), order_CD.split(_ROWS), strict=True))
    counts_S = torch.bincount(first_state_C)
    sums_SD = scaled_CD.new_zeros(len(counts_S), scaled_CD.shape[1])
    for rows_RD, state_R, order_RD in chunks:
        sorted_RD, found_RD = _sort_descending(rows_RD.abs())
        sums_SD.index_add_(0, state_R, sorted_RD)
        order_RD.copy_(_sort_descending(rows_RD)[1] if as_published else found_RD)
    mean_SD = sums_SD / counts_S[:, None].clamp(min=1)  # mu_i^rank
    factor_SD = _ratio(mean_SD[-1], mean_SD)
    for rows_RD, state_R, order_RD in chunks:
        index_RD = order_RD.long()
        if not as_published:
            # The rank of each magnitude in its row: the inverse of the sorting permutation.
            ranks_RD = torch.arange(rows_RD.shape[1], device=order_RD.device).expand_as(order_RD)
            index_RD = torch.empty_like(index_RD).scatter_(1, index_RD, ranks_RD)
        rows_RD *= factor_SD[state_R].gather(1, index_RD)
    return scaled_CD


def _sort_descending(values_CD: Tensor) -> tuple[Tensor, Tensor]:
    """Each row sorted, and where its values stood; of equal ones the earlier first.

    On the CPU, four times as fast as a stable sort of torch: one whole number holds a magnitude's bits and, below them,
    its place. NumPy sorts such numbers with vector instructions.
    """
    if values_CD.device.type != "cpu" or values_CD.dtype != torch.float32:
        found = values_CD.sort(dim=1, descending=True, stable=True)
        return found.values, found.indices
    # The bits of a float are in the order of its magnitude; those of a negative one are turned round. -0.0 becomes 0.0.
    bits_CD = (values_CD + 0.0).contiguous().view(torch.int32).long()
    bits_CD = torch.where(bits_CD < 0, torch.iinfo(torch.int32).min - bits_CD, bits_CD)
    keys_CD = (-bits_CD << 32) + torch.arange(values_CD.shape[1])
    order_CD = torch.from_numpy(np.sort(keys_CD.numpy(), axis=1)) & 0xFFFFFFFF
    return values_CD.gather(1, order_CD), order_CD


def _state_means(values_CX: Tensor, first_state_C: Tensor) -> Tensor:
    """S x X: the mean over the classes that were new in each state."""
    sums = torch.zeros(int(first_state_C.max()) + 1, values_CX.shape[1], dtype=values_CX.dtype, device=values_CX.device)
    counts = torch.bincount(first_state_C, minlength=len(sums))
    return sums.index_add_(0, first_state_C, values_CX) / counts[:, None].clamp(min=1)


def _ratio(newest: Tensor, each: Tensor) -> Tensor:
    """newest / each; 1 where either mean is zero, which tells nothing about scale."""
    usable = (each != 0) & (newest != 0)
    return torch.where(usable, newest / torch.where(each != 0, each, 1), 1)


def _latest(current_C: Tensor, initial_C: Tensor, past: int) -> Tensor:
    return torch.cat([initial_C[:past], current_C[past:]])


def _classes_seen(first_state_C: Tensor) -> Tensor:
    """S: how many classes had been seen by the end of each state."""
    return torch.bincount(first_state_C).cumsum(0).float()
