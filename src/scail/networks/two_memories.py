"""TwoMemories: a frozen backbone, a memory of long ago, a memory of what is recent, and a gate between them (FearNet).

What it gives as features are the logarithms of what each class is worth, so the layer on top changes nothing.

Shapes: N images, D features of the backbone, U hidden units, L numbers of a code, M classes of the long memory, R
recent ones, V vectors of each recent class. Columns are numbered from 0, the long memory's first.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from scail.networks.resnet import unfilled

NEAR = 1e-3
"""Added to every distance, so that none is zero."""
NEVER = -1e4
"""The bias of a class that was forgotten."""


class Sizes(NamedTuple):
    """How large the memories are."""

    features: int
    hidden: int
    code: int
    long: int
    recent: int
    vectors: int


class TwoMemories(nn.Module):
    """N x channels x H x W -> N x (M + R): the long memory's log probabilities, then those of recent classes, plus the
    logarithm of how much more likely the gate takes the image for a recent one."""

    centre_D: Tensor
    spread_D: Tensor
    mean_ML: Tensor
    covariance_MLL: Tensor
    count_R: Tensor

    def __init__(self, backbone: nn.Module, sizes: Sizes) -> None:
        super().__init__()
        features, hidden, code, long, recent, vectors = self.sizes = sizes
        self.backbone = backbone
        self.encoder = nn.Sequential(nn.Linear(features, hidden), nn.ELU(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ELU(), nn.Linear(hidden, features))
        self.classifier = nn.Linear(code, long)
        self.gate = nn.Sequential(nn.Linear(features, hidden), nn.ELU(), nn.Linear(hidden, 1))
        self.recent = nn.Linear(features, recent * vectors) if recent else nn.Identity()
        """A row for each vector v, with -|v|^2 / 2 as its bias: distances follow from both."""
        self.register_buffer("centre_D", torch.zeros(features))
        self.register_buffer("spread_D", torch.ones(features))
        self.register_buffer("mean_ML", torch.zeros(long, code))
        self.register_buffer("covariance_MLL", torch.zeros(long, code, code))
        self.register_buffer("count_R", torch.zeros(recent, dtype=torch.int64))

    def forward(self, pixels: Tensor) -> Tensor:
        """What each class is worth, as a logarithm."""
        x_ND = self.standardised(self.backbone(pixels))
        long_NM = F.log_softmax(self.classifier(self.encoder(x_ND)), dim=1)
        if self.sizes.recent == 0:
            return long_NM
        return torch.cat([long_NM, self.recent_shares(x_ND) + self.gate(x_ND)], 1)

    def standardised(self, features_ND: Tensor) -> Tensor:
        """Features as memories see them: by the mean and the spread that they had in state 0."""
        return (features_ND - self.centre_D) / self.spread_D

    def recent_shares(self, x_ND: Tensor) -> Tensor:
        """N x R log shares of recent classes: one over the distance to the nearest vector of each."""
        squares_N1 = (x_ND * x_ND).sum(1, keepdim=True)
        least_NR = (squares_N1 - 2 * self.recent(x_ND)).view(-1, self.sizes.recent, self.sizes.vectors).amin(2)
        return F.log_softmax(-torch.log(NEAR + torch.sqrt(least_NR.clamp(min=1e-12))), dim=1)

    def decoded(self, column: int, count: int, generator: Generator) -> Tensor:
        """So many features of a class of the long memory, standardised: codes that are drawn, and decoded."""
        with torch.no_grad():
            drawn = torch.randn(count, self.sizes.code, generator=generator, dtype=torch.float64)
            values, vectors = torch.linalg.eigh(self.covariance_MLL[column].cpu().double())
            codes = self.mean_ML[column].cpu() + ((drawn * values.clamp(min=0).sqrt()) @ vectors.T).float()
            made: Tensor = self.decoder(codes)
            return made

    def vectors_of(self, number: int) -> Tensor:
        """The vectors of a recent class, standardised, without those that fill up its rows."""
        assert isinstance(self.recent, nn.Linear)
        rows = self.recent.weight.detach().view(self.sizes.recent, self.sizes.vectors, -1)
        return rows[number, : int(self.count_R[number])]

    def without(self, column: int) -> TwoMemories:
        """A copy that knows nothing of a class any more; its column stays, and is worth nothing."""
        made, long = copy.deepcopy(self), self.sizes.long
        with torch.no_grad():
            if column < long:
                made.classifier.weight[column] = 0
                made.classifier.bias[column] = NEVER
                made.mean_ML[column] = 0
                made.covariance_MLL[column] = 0
            else:
                assert isinstance(made.recent, nn.Linear)
                rows = slice((column - long) * self.sizes.vectors, (column - long + 1) * self.sizes.vectors)
                made.recent.weight[rows] = 0
                made.recent.bias[rows] = -(NEVER**2)  # far from everything
                made.count_R[column - long] = 0
        return made

    @property
    def kept(self) -> list[Tensor]:
        """What no prediction needs: what codes are drawn from, and what decodes them."""
        return [self.mean_ML, self.covariance_MLL, *self.decoder.parameters()]


def two_memories(backbone: nn.Module, sizes: Sizes) -> TwoMemories:
    """Around this backbone; the numbers of both memories are still to be filled in."""
    made = unfilled(lambda: TwoMemories(nn.Identity(), sizes))
    made.backbone = backbone
    made.centre_D.zero_()
    made.spread_D.fill_(1)
    return made.requires_grad_(False)


def two_memories_like(blank: nn.Module, tensors: Mapping[str, Tensor]) -> TwoMemories | None:
    """Empty ones for the tensors of a network; None where it has none."""
    if "backbone.count_R" not in tensors:
        return None
    shapes = {}
    for name, dimensions in (("encoder.0.weight", 2), ("encoder.2.bias", 1), ("classifier.bias", 1), ("count_R", 1)):
        tensor = tensors.get(f"backbone.{name}")
        if tensor is None or tensor.ndim != dimensions:
            raise ValueError(f"backbone.{name}: expected a tensor of {dimensions} dimensions")
        shapes[name] = tensor.shape
    hidden, features = shapes["encoder.0.weight"]
    recent = shapes["count_R"][0]
    rows = tensors["backbone.recent.bias"].numel() if "backbone.recent.bias" in tensors else 0
    sizes = Sizes(
        features, hidden, shapes["encoder.2.bias"][0], shapes["classifier.bias"][0], recent, rows // max(1, recent)
    )
    return two_memories(blank, sizes)
