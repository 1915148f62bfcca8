"""What is kept of every image that a frozen network has seen: enough for heads that forget nothing.

Shapes: C classes, D features, N images.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)  # one is itself only: what is worked out of it can be remembered
class Moments:
    """Per class the number of images and the sum of their features, and one Gram matrix; in double precision.

    They add up: images learned in one call or in a hundred, in any order, give the same moments, but for rounding: a
    share of 1e-9 at most. Scores of ncm, slda and ridge then differ by less than 1e-4 of their range. The network never
    moves, so moments never age.
    """

    count_C: Tensor
    sum_CD: Tensor
    gram_DD: Tensor
    """The sum over all images of f f', their features f as columns."""

    @classmethod
    def of(cls, features_ND: Tensor, labels_N: Tensor, classes: int) -> Moments:
        """The moments of these images.

        >>> found = Moments.of(torch.tensor([[1.0, 0.0], [3.0, 2.0]]), torch.tensor([0, 0]), 1)
        >>> found.mean_CD.tolist(), found.gram_DD.tolist()
        ([[2.0, 1.0]], [[10.0, 6.0], [6.0, 4.0]])
        """
        features_ND = features_ND.double()
        sum_CD = torch.zeros(classes, features_ND.shape[1], dtype=torch.float64).index_add_(0, labels_N, features_ND)
        return cls(torch.bincount(labels_N, minlength=classes), sum_CD, features_ND.T @ features_ND)

    def __add__(self, other: Moments) -> Moments:
        """Those of both; `other` may have classes that are new."""
        more = len(other.count_C) - len(self.count_C)
        count_C, sum_CD = torch.cat([self.count_C, self.count_C.new_zeros(more)]), self.sum_CD
        sum_CD = torch.cat([sum_CD, sum_CD.new_zeros(more, sum_CD.shape[1])])
        return Moments(count_C + other.count_C, sum_CD + other.sum_CD, self.gram_DD + other.gram_DD)

    def without(self, features_ND: Tensor, labels_N: Tensor) -> Moments:
        """Without these images, which were counted once."""
        gone = Moments.of(features_ND, labels_N, len(self.count_C))
        sum_CD = self.sum_CD - gone.sum_CD
        count_C = self.count_C - gone.count_C
        return Moments(count_C, sum_CD * (count_C > 0)[:, None], self.gram_DD - gone.gram_DD)

    def moved(self, features_ND: Tensor, labels_N: Tensor, label: int) -> Moments:
        """With these images, which were counted under their labels, in another class."""
        sum_D, count_C = features_ND.double().sum(0), self.count_C.clone()
        sum_CD = self.sum_CD.index_add(0, labels_N, features_ND.double(), alpha=-1)
        sum_CD[label] += sum_D
        count_C -= torch.bincount(labels_N, minlength=len(count_C))
        count_C[label] += len(labels_N)
        return Moments(count_C, sum_CD * (count_C > 0)[:, None], self.gram_DD)

    @classmethod
    def carried_in(cls, tensors: Mapping[str, Tensor]) -> Moments | None:
        """The moments among the values that a trainer carries; None: it carries none."""
        names = [f.name for f in fields(cls)]
        return cls(**{name: tensors[name] for name in names}) if all(name in tensors for name in names) else None

    def to_carry(self) -> dict[str, Tensor]:
        """The same by their names."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def images(self) -> int:
        """How many images were seen."""
        return int(self.count_C.sum())

    @property
    def mean_CD(self) -> Tensor:
        """The mean of each class; 0 where it has no images."""
        return self.sum_CD / self.count_C.clamp(min=1)[:, None]

    @property
    def within_DD(self) -> Tensor:
        """The scatter of the images around the means of their classes: a sum, not yet divided by their number."""
        return self.gram_DD - self.sum_CD.T @ self.mean_CD

    @property
    def total_DD(self) -> Tensor:
        """The scatter of the images around the mean of all."""
        sum_D = self.sum_CD.sum(0)
        return self.gram_DD - torch.outer(sum_D, sum_D) / max(1, self.images)
