"""A layer that goes by angles: cosines between features and rows, times one scale that is learned.

Shapes: N images, C classes, K rows of each class, D features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F


class CosineLinear(nn.Linear):
    """Score = scale * similarity. With one row a class its cosine; with K rows their mean cosine, where the more
    similar ones weigh more (by a softmax over the cosines).

    `weight` has the K rows of a class one after the other: C x (K * D). There are no biases.
    """

    held: nn.Parameter | None
    """While it trains, rows of the first classes may be held still: they stand here, and `weight` has the others."""

    def __init__(self, feature_size: int, num_classes: int, proxies: int = 1) -> None:
        super().__init__(feature_size * proxies, num_classes, bias=False, device="meta")
        self.weight = nn.Parameter(torch.zeros(num_classes, feature_size * proxies))
        self.scale = nn.Parameter(torch.ones(()))
        self.register_parameter("held", None)
        self.feature_size, self.proxies = feature_size, proxies

    def drawn(self, generator: Generator) -> CosineLinear:
        """With fresh rows, as torch draws those of a linear layer."""
        bound = 1 / math.sqrt(self.feature_size)
        with torch.no_grad():
            self.weight.copy_(torch.rand(self.weight.shape, generator=generator) * (2 * bound) - bound)
        return self

    @property
    def rows_CR(self) -> Tensor:
        """The rows of all classes."""
        return self.weight if self.held is None else torch.cat([self.held, self.weight])

    def forward(self, features: Tensor) -> Tensor:
        """N x C scores, in 32 bits whatever the network runs in."""
        with torch.autocast(features.device.type, enabled=False):
            unit = F.normalize(features.float(), dim=1)
            rows = F.normalize(self.rows_CR.view(-1, self.feature_size), dim=1)
            cosines = F.linear(unit, rows)
            if self.proxies > 1:
                each = cosines.view(len(cosines), self.out_features, self.proxies)
                cosines = (each * each.softmax(2)).sum(2)
            return self.scale * cosines

    def scaled_rows(self) -> Tensor:
        """C x (K * D): every row of unit length, times the scale."""
        rows = F.normalize(self.rows_CR.detach().view(-1, self.feature_size), dim=1) * self.scale.detach()
        return rows.view(self.out_features, -1)

    def hold(self, count: int) -> None:
        """Hold the rows of the first classes still from here on."""
        held, free = self.weight.detach().split([count, self.out_features - count])
        self.held = nn.Parameter(held.clone(), requires_grad=False)
        self.weight = nn.Parameter(free.clone())

    def release(self) -> None:
        """Hold none any more."""
        self.weight = nn.Parameter(self.rows_CR.detach().clone())
        self.held = None

    def extended(self, rows: Tensor) -> CosineLinear:
        """A copy with these rows of further classes."""
        return self._with(torch.cat([self.weight.detach().cpu(), rows]))

    def only(self, classes: Tensor) -> CosineLinear:
        """A copy with the rows of these classes."""
        return self._with(self.weight.detach()[classes])

    def _with(self, rows: Tensor) -> CosineLinear:
        found = CosineLinear(self.feature_size, len(rows), self.proxies)
        with torch.no_grad():
            found.weight.copy_(rows)
            found.scale.copy_(self.scale)
        return found


def cosine_linear_from(tensors: Mapping[str, Tensor], feature_size: int) -> CosineLinear:
    """An empty layer for these tensors of one; a ValueError where they cannot be."""
    rows = tensors.get("linear.weight", torch.empty(0))
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.shape[1] % feature_size:
        raise ValueError(f"rows of shape {tuple(rows.shape)}, expected a multiple of {feature_size} columns")
    return CosineLinear(feature_size, len(rows), rows.shape[1] // feature_size)
