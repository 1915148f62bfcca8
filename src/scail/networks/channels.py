"""Channels that a network can do without: masks on those inside its blocks, while they are learned; then their removal.

A channel has a value m. Its mask is e = sigmoid(s * m): with a larger s the masks come closer to 0 and 1.

Shapes: C channels of one layer.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from scail.networks.resnet import Inner

BEGIN = 1.0
"""m at first: each channel is in."""


class Masked(nn.Module):
    """A backbone whose inner channels have masks. In training s rises from 1/most to most within each epoch."""

    passed: Tensor
    """Batches so far."""

    def __init__(self, backbone: nn.Module, batches: int, most: float) -> None:
        super().__init__()
        self.backbone, self.batches, self.most = backbone, max(1, batches), most
        inner = inner_of(backbone)
        self.values = nn.ParameterList(nn.Parameter(torch.full((_width(one),), BEGIN)) for one in inner)
        self.register_buffer("passed", torch.zeros((), dtype=torch.int64))
        names = {module: name for name, module in backbone.named_modules()}
        self._scaled = [names[one.norm or one.made] for one in inner]

    @property
    def steepness(self) -> float:
        """s of this batch; where nothing is trained, the most."""
        if not self.training:
            return self.most
        share = (int(self.passed) - 1) % self.batches / max(1, self.batches - 1)
        return 1 / self.most + (self.most - 1 / self.most) * share

    def masks(self, steepness: float) -> list[Tensor]:
        """e of each layer. What s does to its gradient is taken out again."""
        plain = [torch.sigmoid(value) for value in self.values]
        return [
            torch.sigmoid(steepness * value).detach() + one - one.detach()
            for value, one in zip(self.values, plain, strict=True)
        ]

    def forward(self, pixels: Tensor) -> Tensor:
        """N x channels x H x W -> N x D."""
        if torch.is_grad_enabled():  # on a rank without an image in this batch, too: there it is not in training mode
            self.passed += 1
        features: Tensor = functional_call(self.backbone, self._with(self.masks(self.steepness)), (pixels,))
        return features

    def _with(self, masks: list[Tensor]) -> dict[str, Tensor]:
        """What gives the masked channels, scaled by their masks: a norm's weight and bias, or a layer's."""
        found = dict[str, Tensor]()
        for name, mask_C in zip(self._scaled, masks, strict=True):
            for what, value in self.backbone.get_submodule(name).named_parameters(recurse=False):
                found[f"{name}.{what}"] = value * mask_C.view(-1, *[1] * (value.ndim - 1))
        return found

    def sparsity(self) -> Tensor:
        """The share of weights that the masks leave, each layer's as (masks in) * (masks out) * size of its kernel."""
        masks = self.masks(self.steepness)
        made, read = ({one[at]: e for one, e in zip(inner_of(self.backbone), masks, strict=True)} for at in (0, 2))
        used, whole = torch.zeros((), device=self.passed.device), 0
        for layer in self.backbone.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                outputs, inputs = layer.weight.shape[:2]
                kernel = layer.weight[0, 0].numel()
                out = made[layer].sum() if layer in made else outputs
                used = used + kernel * out * (read[layer].sum() if layer in read else inputs)
                whole += kernel * outputs * inputs
        return used / whole

    def pruned(self) -> nn.Module:
        """The backbone without the channels whose m is not above 0; at least one of each layer stays.

        What is left of them is scaled by its mask at the largest s.
        """
        with torch.no_grad():
            for name, value in self._with([torch.sigmoid(self.most * one) for one in self.values]).items():
                self.backbone.get_parameter(name).copy_(value)
            for one, value in zip(inner_of(self.backbone), self.values, strict=True):
                _keep(one, (value > 0) | (value == value.max()))
        return self.backbone


def inner_of(backbone: nn.Module) -> list[Inner]:
    """The inner channels of a backbone; an error where it does not say which these are."""
    found = getattr(backbone, "inner", None)
    if found is None:
        raise ValueError(
            "DER's pruning removes channels inside blocks, and this network does not say which these are; take one of "
            "scail's ResNets, such as resnet8, or der, which prunes nothing"
        )
    inner: list[Inner] = found()
    return inner


def as_wide_as(backbone: nn.Module, tensors: Mapping[str, Tensor], prefix: str) -> nn.Module:
    """The backbone with as many inner channels as these tensors have."""
    names = {module: name for name, module in backbone.named_modules()}
    for one in inner_of(backbone) if hasattr(backbone, "inner") else []:
        made = tensors.get(f"{prefix}{names[one.made]}.weight")
        if made is not None and 0 < len(made) < _width(one):
            _keep(one, torch.arange(_width(one)) < len(made))
    return backbone


def _width(one: Inner) -> int:
    return len(one.made.weight)


def _keep(one: Inner, keep_C: Tensor) -> None:
    """Only these of the inner channels."""
    kept = keep_C.nonzero().flatten()
    one.made.weight = nn.Parameter(one.made.weight[kept].detach().clone())
    one.read.weight = nn.Parameter(one.read.weight[:, kept].detach().clone())
    for module in (one.made, one.norm):
        if isinstance(module, nn.BatchNorm2d):
            module.weight = nn.Parameter(module.weight[kept].detach().clone())
            module.running_mean, module.running_var = (
                None if of is None else of[kept].clone() for of in (module.running_mean, module.running_var)
            )
            module.num_features = len(kept)
        if module is not None and module.bias is not None:
            module.bias = nn.Parameter(module.bias[kept].detach().clone())
