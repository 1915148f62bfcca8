"""The exemplar memory, which never holds more than B images, and the orders in which exemplars are chosen.

Shapes: N images of one class, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from scail.runtime.seeds import generator_for

SELECTION_VERSION = 1  # raise it when a change makes other exemplars: states trained with them are then not reused


Selection = Callable[[Tensor, int], Tensor]
"""selection(features, count) -> indices: a way to choose exemplars, as `herding_order` is one."""


def places(budget: int, num_classes: int) -> list[int]:
    """How many exemplars each class may keep: floor(B / N), and the remainder one each to the earliest classes.

    >>> places(10, 4)
    [3, 3, 2, 2]
    """
    each, left_over = divmod(budget, max(1, num_classes))
    return [each + (c < left_over) for c in range(num_classes)]


@dataclass(frozen=True)
class Memory:
    """The exemplars of every class seen, best first: `exemplars[c]` are rows of the training images of class c."""

    budget: int
    exemplars: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ValueError(f"memory is {self.budget} images, expected 0 or more")
        assert len(self) <= self.budget, "the memory overran its budget"

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.exemplars)

    @property
    def indices(self) -> Tensor:
        """Rows of all exemplars, class by class."""
        return torch.cat([torch.empty(0, dtype=torch.int64), *self.exemplars])

    @property
    def labels(self) -> Tensor:
        """Their labels."""
        counts = torch.tensor([len(rows) for rows in self.exemplars], dtype=torch.int64)
        return torch.arange(len(self.exemplars)).repeat_interleave(counts)

    def reorder(self, orders: Mapping[int, Tensor]) -> Memory:
        """The memory with other exemplars, best first, for some of its classes; each has at most its places."""
        if not orders:
            return self
        allowed = places(self.budget, len(self.exemplars))
        kept = [orders.get(c, rows)[:most] for c, (rows, most) in enumerate(zip(self.exemplars, allowed, strict=True))]
        return Memory(self.budget, tuple(kept))

    def add(self, orders: Sequence[Tensor]) -> Memory:
        """The memory after a state: `orders` holds, for each new class, the rows of its images, best first.

        Every class keeps a prefix of what it had, so shrinking never needs the images that were let go. With fewer
        places than classes the earliest ones keep one each.
        """
        wanted = (*self.exemplars, *orders)
        allowed = places(self.budget, len(wanted))
        return Memory(self.budget, tuple(rows[:most] for rows, most in zip(wanted, allowed, strict=True)))


def exemplar_draw(seed: int, label: int) -> Generator:
    """What draws the random exemplars of a class."""
    return generator_for(seed, "exemplars", label)


def aside_places(count: int) -> list[int]:
    """Which of `count` exemplars of a class no training sees, where a trainer holds some out: a tenth, rounded up.

    Always the same places, so that an image stays held out however small the memory of its class becomes. A single
    exemplar is trained on.

    >>> aside_places(1), aside_places(10), aside_places(21)
    ([], [1], [1, 10, 20])
    """
    return [place for place in range(1, count) if place == 1 or place % 10 == 0]


def with_aside(order: Tensor, aside: Tensor) -> Tensor:
    """The order of a class, with images that were never trained on at the places that are held out.

    >>> with_aside(torch.tensor([5, 6, 7]), torch.tensor([9])).tolist()
    [5, 9, 6, 7]
    """
    rows = order.tolist()
    for place, row in zip(aside_places(len(order) + len(aside)), aside.tolist(), strict=False):
        rows.insert(place, row)
    return torch.tensor(rows, dtype=torch.int64)


def random_order(features_ND: Tensor, count: int, generator: Generator) -> Tensor:
    """`count` images of a class in random order (the features only say how many images there are)."""
    return torch.randperm(len(features_ND), generator=generator)[:count]


def herding_order(features_ND: Tensor, count: int) -> Tensor:
    """`count` images of a class, best first, chosen greedily so that their mean stays close to the class mean.

    Features are scaled to unit length first. Each step takes the image f that brings the mean of the chosen closest to
    the class mean m: with s the sum of the t-1 images chosen so far, |m - (s + f)/t| is smallest where
    |f|^2 - 2 f.(t m - s) is. No image is taken twice.
    """
    unit = F.normalize(torch.as_tensor(features_ND).double(), dim=1)
    mean, squares = unit.mean(0), (unit * unit).sum(1)
    chosen, total = [], torch.zeros_like(mean)
    for t in range(1, min(count, len(unit)) + 1):
        best = int(torch.argmin(torch.addmv(squares, unit, t * mean - total, alpha=-2)))
        chosen.append(best)
        total += unit[best]
        squares[best] = torch.inf
    return torch.tensor(chosen, dtype=torch.int64)


def name_of_selection(select: Selection) -> str:
    """What a selection is called, by its function.

    >>> name_of_selection(herding_order)
    'herding'
    """
    return str(getattr(select, "__name__", type(select).__name__)).removesuffix("_order")


def checked_order(order: object, images: int, count: int, select: Selection) -> Tensor:
    """The order that a selection gave; an error unless it is `count` different images of a class, best first."""
    name = name_of_selection(select)
    if not isinstance(order, Tensor) or order.dtype != torch.int64 or order.ndim != 1:
        shape = f"{order.dtype} of shape {tuple(order.shape)}" if isinstance(order, Tensor) else type(order).__name__
        raise ValueError(f"selection {name} gave {shape}; expected an int64 tensor with one index for each exemplar")
    found = order.tolist()
    if len(found) != count or len(set(found)) < count or not all(0 <= index < images for index in found):
        raise ValueError(
            f"selection {name} gave {found[:8]}{'...' if len(found) > 8 else ''} for {images} images of a class; "
            f"expected {count} different indices from 0 to {images - 1}, best first"
        )
    return order
