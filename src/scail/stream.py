"""The stream of states: in which order classes arrive, and how many arrive together.

Labels are renumbered once, in order of arrival, so that state k's new classes are the last rows of the layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import cast

import numpy as np
import torch
from torch import Tensor

from scail.datasets import Dataset
from scail.datasets.dataset import Icarl
from scail.datasets.settle import rows_by_class


@dataclass(frozen=True)
class State:
    """State S^k: its new classes and where their images are."""

    index: int
    """k: 0 for the first state."""
    class_names: tuple[str, ...]
    """The P_k new classes, in order of arrival."""
    past_classes: int
    """N_(k-1): how many classes arrived before. The new labels are past_classes .. num_classes - 1."""
    train_indices: Tensor
    """Rows of the new classes' training images in `dataset.train`, class by class."""
    train_labels: Tensor
    """Their labels, renumbered by arrival."""
    test_indices: Tensor
    """Rows of the new classes' test images in `dataset.test`, class by class."""
    test_labels: Tensor

    @property
    def num_classes(self) -> int:
        """N_k: classes seen up to and including this state."""
        return self.past_classes + len(self.class_names)


def class_order(
    order: str | Sequence[str], class_names: Sequence[str], seed: int, *, icarl: Icarl = "direct"
) -> tuple[int, ...]:
    """The order of arrival as indices into `class_names`.

    `order` is "seed" (drawn from `seed`), "icarl" (numpy's RandomState(1993), as in the literature), "given" (as the
    data set lists them), or the class names themselves, each exactly once.

    `icarl` is how the data set reads iCaRL's shuffle m of 0..n-1: "direct", class m[i] arrives i-th (CIFAR-100);
    "positions", class i arrives m[i]-th (ILSVRC, whose classes are then in the order of the devkit's ids); "unknown",
    there is no such order, since the ids are not known.

    >>> class_order(["b", "a"], ["a", "b"], seed=0)
    (1, 0)
    """
    count = len(class_names)
    if order == "given":
        return tuple(range(count))
    if order == "icarl" and icarl == "unknown":
        raise ValueError(
            "class order 'icarl': iCaRL's order of ILSVRC needs the class ids of the devkit's metadata; put "
            "ILSVRC2012_devkit_t12.tar.gz into the data set's folder, beside train/ (and complete train/, if classes "
            "among the first ids have no folder there), or use --order seed or --order given"
        )
    if order in ("seed", "icarl"):
        shuffled = np.arange(count)
        np.random.RandomState(1993 if order == "icarl" else seed).shuffle(shuffled)
        if order == "icarl" and icarl == "positions":
            shuffled = np.argsort(shuffled)
        return tuple(int(c) for c in shuffled)
    if isinstance(order, str):
        raise ValueError(f"class order {order!r}: expected seed, icarl, given, or a list of class names")
    return _named_order(order, class_names)


def _named_order(order: Sequence[str], class_names: Sequence[str]) -> tuple[int, ...]:
    position = {name: c for c, name in enumerate(class_names)}
    unknown = [name for name in order if name not in position]
    if unknown:
        raise ValueError(f"class order: unknown class {unknown[0]!r}; the data set has e.g. {list(class_names[:5])}")
    if len(set(order)) != len(order):
        twice = next(name for name in order if list(order).count(name) > 1)
        raise ValueError(f"class order: class {twice!r} is named twice; name each class once")
    missing = [name for name in class_names if name not in set(order)]
    if missing:
        raise ValueError(f"class order: {len(missing)} class(es) missing, the first is {missing[0]!r}; name them all")
    return tuple(position[name] for name in order)


def state_sizes(num_classes: int, states: int | Sequence[int], first: int | None = None) -> tuple[int, ...]:
    """How many classes are new in each state.

    `states` is a number of states of equal size (the earliest get one more where it does not divide), or the sizes
    themselves. With `first`, state 0 has that many classes and the rest is spread over the other states.

    >>> state_sizes(100, 10, first=55)
    (55, 5, 5, 5, 5, 5, 5, 5, 5, 5)
    """
    if not isinstance(states, Integral):
        sizes = tuple(cast(Sequence[int], states))
        if min(sizes, default=0) < 1 or sum(sizes) != num_classes:
            raise ValueError(f"state sizes {list(sizes)}: expected positive numbers that add up to {num_classes}")
        if first is not None:
            raise ValueError(f"first state of {first} classes and the sizes {list(sizes)}: give one or the other")
        return sizes
    states = int(states)
    if not 1 <= states <= num_classes:
        raise ValueError(f"{states} states for {num_classes} classes: expected 1 to {num_classes} states")
    if first is None:
        return tuple(num_classes // states + (k < num_classes % states) for k in range(states))
    if not (states >= 2 and 1 <= first <= num_classes - (states - 1)):
        raise ValueError(
            f"a first state of {first} classes leaves {num_classes - first} for {states - 1} more states; "
            "every state needs at least one new class"
        )
    return (first, *state_sizes(num_classes - first, states - 1))


def split_into_states(
    dataset: Dataset, num_states: int | Sequence[int], class_order: Sequence[int], first: int | None = None
) -> tuple[State, ...]:
    """Cut the classes, in order of arrival, into states; see `state_sizes` and `class_order` for the arguments."""
    if sorted(class_order) != list(range(len(dataset.class_names))):
        raise ValueError(f"class order: expected each of 0..{len(dataset.class_names) - 1} exactly once")
    sizes = state_sizes(len(class_order), num_states, first)
    train, test = (rows_by_class(part.labels, len(class_order)) for part in (dataset.train, dataset.test))
    states = []
    for k, size in enumerate(sizes):
        past = sum(sizes[:k])
        new = class_order[past : past + size]
        train_indices, train_labels = _rows_of(train, new, past)
        test_indices, test_labels = _rows_of(test, new, past)
        names = tuple(dataset.class_names[c] for c in new)
        states.append(State(k, names, past, train_indices, train_labels, test_indices, test_labels))
    return tuple(states)


def _rows_of(by_class: Sequence[Tensor], classes: Sequence[int], first_label: int) -> tuple[Tensor, Tensor]:
    """Rows of these classes, class by class, and their labels counted on from `first_label`."""
    rows = [by_class[c] for c in classes]
    renumbered = [torch.full((len(r),), first_label + i) for i, r in enumerate(rows)]
    return torch.cat(rows), torch.cat(renumbered)
