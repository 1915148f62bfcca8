"""One backbone that several states share: each weight belongs to the state that learned it, or to none yet.

A state sees its own weights and those of the states before it. So a backbone of k states gives k features of an image,
by as many passes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from scail.networks.grown import Grown

OWNERS = "owners."
FREE = 0
"""The owner of a weight that no state has; the states count from 1."""


class Packed(nn.Module):
    """The features of each state's part of the backbone, one behind the other. Nothing in it moves."""

    def __init__(self, shared: nn.Module, owners: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.shared, self.owners = shared.requires_grad_(False).eval(), nn.Module()
        for name, owner in owners.items():
            self.owners.register_buffer(_flat(name), owner)

    @property
    def owner_of(self) -> dict[str, Tensor]:
        """By the name of a tensor of weights: who owns each of them."""
        return {name: self.owners.get_buffer(_flat(name)) for name in packable(self.shared)}

    @property
    def states(self) -> int:
        """How many states have weights."""
        return max(int(owner.max()) for owner in self.owner_of.values())

    def forward(self, pixels: Tensor) -> Tensor:
        """N x channels x H x W -> N x (states * D)."""
        each = [functional_call(self.shared, self._seen_by(n), (pixels,)) for n in range(1, self.states + 1)]
        return torch.cat(each, 1)

    def _seen_by(self, state: int) -> dict[str, Tensor]:
        """The weights as this state sees them."""
        owners, weights = self.owner_of, packable(self.shared)
        return {name: w * ((owners[name] > FREE) & (owners[name] <= state)) for name, w in weights.items()}

    def unpacked(self) -> Grown:
        """The same as one backbone for each state: k times the weights, for whoever cannot exchange them in passing."""
        found = []
        for state in range(1, self.states + 1):
            found.append(copy.deepcopy(self.shared))
            found[-1].load_state_dict(self._seen_by(state), strict=False)
        return Grown(found)

    def train(self, mode: bool = True) -> Packed:
        """Norms go by their running statistics, always."""
        super().train(mode)
        self.shared.eval()
        return self


class Packing(nn.Module):
    """A backbone while a state learns: weights that are `free` move, others are as they were."""

    def __init__(self, backbone: nn.Module, free: Mapping[str, Tensor], norms: bool) -> None:
        super().__init__()
        self.backbone, self.norms = backbone, norms
        self.free, self.held = nn.Module(), nn.Module()
        for name, weight in packable(backbone).items():
            self.free.register_buffer(_flat(name), free[name])
            self.held.register_buffer(_flat(name), (weight * ~free[name]).detach().clone())
        packed = set(packable(backbone))
        for name, parameter in backbone.named_parameters():
            parameter.requires_grad_(norms or name in packed)

    def weights(self) -> dict[str, Tensor]:
        """All weights, as they are now."""
        return {
            name: self.held.get_buffer(_flat(name)) + weight * self.free.get_buffer(_flat(name))
            for name, weight in packable(self.backbone).items()
        }

    def forward(self, pixels: Tensor) -> Tensor:
        """N x channels x H x W -> N x D."""
        features: Tensor = functional_call(self.backbone, self.weights(), (pixels,))
        return features

    def train(self, mode: bool = True) -> Packing:
        """Norms that are held go by their running statistics."""
        super().train(mode)
        if not self.norms:
            self.backbone.eval()
        return self


def packable(backbone: nn.Module) -> dict[str, Tensor]:
    """The weights that belong to states: of convolutions and linear layers, without biases."""
    return {
        f"{name}.weight": module.weight
        for name, module in backbone.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    }


def kept_weights(weight: Tensor, free: Tensor, pruned: float) -> Tensor:
    """Which of the free weights a state keeps: the largest ones, but for this share; at least one."""
    magnitudes = weight[free].abs()
    count = max(1, len(magnitudes) - int(pruned * len(magnitudes)))
    order = magnitudes.sort(descending=True, stable=True).indices[:count]
    kept = torch.zeros(free.numel(), dtype=torch.bool, device=free.device)
    kept[free.reshape(-1).nonzero().flatten()[order]] = True
    return kept.view(free.shape)


def packed_like(blank: nn.Module, features: int, tensors: Mapping[str, Tensor]) -> tuple[Packed, int]:
    """An empty backbone for these tensors, and how many features it has."""
    owners = {name: tensors.get(OWNERS + _flat(name), torch.empty(0)) for name in packable(blank)}
    for name, owner in owners.items():
        if owner.shape != packable(blank)[name].shape or owner.dtype != torch.int16:
            raise ValueError(f"owners of {name} are {tuple(owner.shape)}, {owner.dtype}")
    states = max(int(owner.max()) for owner in owners.values())
    if states == 0:
        raise ValueError("no weight has an owner")
    return Packed(blank, {name: owner.clone() for name, owner in owners.items()}), states * features


def _flat(name: str) -> str:
    return name.replace(".", "-")
