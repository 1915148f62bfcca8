"""EarlierModels: models of all earlier states in the weights of one, told apart by a mask.

Each model has the largest of the weights that were free, and uses those of the models before it, too. They never move
again; so a number per weight says which models have it. What is small is kept for each model as it was: its biases and
batch norms, and the rows of its own classes.

Shapes: M models, C classes, D features, A features of the auxiliary layer, W weights of the backbone's convolutions and
linear layers, K other numbers of the backbone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from scail.networks.network import Network, empty_linear
from scail.training.losses import teacher_of

MOST = 254
"""So many models at most: a number per weight is one byte."""


class Teacher(NamedTuple):
    """An earlier model, and the classes that were new in it."""

    classes: Tensor
    network: Network


@dataclass(frozen=True)
class EarlierModels:
    """What is kept of earlier models, beside the weights of the newest one."""

    owner_W: Tensor
    """The number, from 1 on, of the first model that has a weight; 0: it is free. One byte each."""
    rest_MK: Tensor
    """Biases and batch norms of each model."""
    model_C: Tensor
    """The number, from 1 on, of the model in which each class was new."""
    weight_CD: Tensor
    """Each class's row in that model; likewise the others."""
    bias_C: Tensor
    auxiliary_weight_CA: Tensor
    auxiliary_bias_C: Tensor

    @classmethod
    def carried_in(cls, carried: Mapping[str, Tensor]) -> Self | None:
        """Those that a trainer carries; None: it carries none."""
        return cls(**{f.name: carried[f.name] for f in fields(cls)}) if carried else None

    def to_carry(self) -> dict[str, Tensor]:
        """The same by their names."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def with_newest(cls, before: Self | None, network: Network, past: int) -> Self:
        """Those of before, and this network; where none of its classes is new, it takes the place of the newest.

        A weight that was free and is not zero any more is the network's.
        """
        aux, weights_W = network.auxiliary, torch.cat([w.detach().cpu().flatten() for w in masked(network.backbone)])
        assert aux is not None
        rows = [p.detach().cpu().clone() for layer in (network.linear, aux) for p in (layer.weight, layer.bias)]
        classes, rest_1K = len(rows[1]), rest_of(network.backbone)[None]
        number = 1 if before is None else before.newest + (classes > past)
        owner_W = torch.zeros(len(weights_W), dtype=torch.uint8) if before is None else before.owner_W.clone()
        owner_W[owner_W == number] = 0
        owner_W[(owner_W == 0) & (weights_W != 0)] = number
        if before is None:
            return cls(owner_W, rest_1K, torch.full((classes,), number), *rows)
        model_C = torch.cat([before.model_C, torch.full((classes - past,), number)])
        own_C = model_C == number
        known = (before.weight_CD, before.bias_C, before.auxiliary_weight_CA, before.auxiliary_bias_C)
        for row, of_before in zip(rows, known, strict=True):
            row[~own_C] = of_before[~own_C[:past]]
        return cls(owner_W, torch.cat([before.rest_MK[: number - 1], rest_1K]), model_C, *rows)

    @property
    def newest(self) -> int:
        """The number of the newest model."""
        return len(self.rest_MK)

    def owners(self, backbone: nn.Module, free: int = 0) -> list[Tensor]:
        """Per tensor of weights whose they are; those of model `free` are free. An error where they do not fit."""
        sizes = [w.numel() for w in masked(backbone)]
        if sum(sizes) != len(self.owner_W):
            raise ValueError(f"owner_W is for {len(self.owner_W)} weights, and the network has {sum(sizes)}")
        owner_W = self.owner_W.masked_fill(self.owner_W == free, 0)
        return [part.view(w.shape) for part, w in zip(owner_W.split(sizes), masked(backbone), strict=True)]

    def teachers(self, network: Network, device: torch.device) -> list[Teacher]:
        """The models as they were, from the weights of the newest; those that know two classes of their own or more.

        Of one class alone a softmax says nothing.
        """
        found = []
        for number in range(1, self.newest + 1):
            classes = (self.model_C == number).nonzero().flatten()
            if len(classes) > 1:
                found.append(Teacher(classes.to(device), self.model(number, classes, network).to(device)))
        return found

    def model(self, number: int, classes: Tensor, network: Network) -> Network:
        """One of them, with rows for these classes."""
        made = teacher_of(network)
        owners = self.owners(made.backbone)
        with torch.no_grad():
            for weight, owner in zip(masked(made.backbone), owners, strict=True):
                owner = owner.to(weight.device)
                weight.mul_((owner > 0) & (owner <= number))
        put_rest(made.backbone, self.rest_MK[number - 1])
        made.linear = layer_of(self.weight_CD[classes], self.bias_C[classes])
        made.auxiliary = layer_of(self.auxiliary_weight_CA[classes], self.auxiliary_bias_C[classes])
        return made.eval().requires_grad_(False)


def masked(backbone: nn.Module) -> list[nn.Parameter]:
    """The weights that belong to models: those of convolutions and linear layers."""
    return [p for p in backbone.parameters() if p.ndim > 1]


def _rest(backbone: nn.Module) -> list[Tensor]:
    """All other numbers that decide what the backbone gives: biases and batch norms."""
    return [value for value in backbone.state_dict().values() if value.ndim == 1 and value.is_floating_point()]


def rest_of(backbone: nn.Module) -> Tensor:
    """Biases and batch norms, one after the other."""
    return torch.cat([value.detach().cpu().flatten() for value in _rest(backbone)] or [torch.empty(0)])


def put_rest(backbone: nn.Module, rest_K: Tensor) -> None:
    """The backbone gets these biases and batch norms; an error where they do not fit."""
    rest = _rest(backbone)
    if sum(value.numel() for value in rest) != len(rest_K):
        raise ValueError(f"rest_MK has {len(rest_K)} numbers of a model, and the network has {sum(map(len, rest))}")
    for value, kept in zip(rest, rest_K.split([len(value) for value in rest]), strict=True):
        value.copy_(kept)


def layer_of(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer of these rows."""
    layer = empty_linear(weight.shape[1], len(weight))
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


@contextmanager
def held(backbone: nn.Module, stay: Sequence[Tensor], device: torch.device) -> Iterator[None]:
    """Meanwhile these weights stay as they are: every step that moves them is followed by putting them back."""
    pairs = [(w.detach().clone().to(device), s.to(device)) for w, s in zip(masked(backbone), stay, strict=True)]

    def put_back(module: nn.Module, _: Any) -> None:
        with torch.no_grad():
            for weight, (value, stays) in zip(masked(module), pairs, strict=True):
                weight.copy_(torch.where(stays, value, weight))

    handle = backbone.register_forward_pre_hook(put_back)  # what a step leaves is first seen by the next pass
    try:
        yield
    finally:
        handle.remove()
    put_back(backbone, None)  # after the last step there is no pass


def keep_largest(backbone: nn.Module, free: Sequence[Tensor], share: float) -> list[Tensor]:
    """Of each tensor's free weights the largest share stays, rounded up; the others become zero. Gives which stay."""
    found = []
    for weight, is_free in zip(masked(backbone), free, strict=True):
        sizes = weight.detach().abs().masked_fill(~is_free.to(weight.device), -1).flatten()
        stays = torch.zeros_like(sizes, dtype=torch.bool)
        stays[sizes.topk(math.ceil(share * int(is_free.sum()))).indices] = True
        stays = stays.view(weight.shape)
        with torch.no_grad():
            weight.mul_(stays | ~is_free.to(weight.device))
        found.append(stays)
    return found
