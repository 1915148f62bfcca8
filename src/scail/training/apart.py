"""What methods have in common that were made for known tasks: each state's classes see features of their own.

A class's row has weights for the features of its own state, and zeros for all others. A state learns from the images of
its own classes alone. Nobody tells the state of a test image: the outputs of all states are compared.

Shapes: N images, C classes, K states with D features each.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scail.config import Schedule
from scail.networks.network import Network, empty_linear
from scail.training.loop import fit
from scail.training.still import held
from scail.training.task import Task


def new_classes_loss(past: int, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy over the new classes: the model has outputs for no others."""
    return F.cross_entropy(model(images), labels - past)


def joined(past: nn.Linear, new: nn.Linear) -> nn.Linear:
    """A layer for past and new classes: past rows see the features that there were, new rows the D after them."""
    layer = empty_linear(past.in_features + new.in_features, past.out_features + new.out_features)
    with torch.no_grad():
        layer.weight.copy_(torch.block_diag(past.weight.cpu(), new.weight.cpu()))
        layer.bias.copy_(torch.cat([past.bias.cpu(), new.bias.cpu()]))
    return layer.to(new.weight.device)


def state_of_rows(layer: nn.Linear, features: int) -> Tensor:
    """C: in which of the blocks of so many features each class has its weights."""
    each_CKD = layer.weight.detach().view(layer.out_features, -1, features)
    return each_CKD.abs().sum(2).argmax(1)


class ApartLayer(nn.Linear):
    """A layer whose zeros stay zeros while it learns."""

    own_CD: Tensor

    def __init__(self, layer: nn.Linear, state_C: Tensor, features: int) -> None:
        super().__init__(layer.in_features, layer.out_features, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        own_CK = state_C[:, None] == torch.arange(layer.in_features // features, device=state_C.device)
        self.register_buffer("own_CD", own_CK.repeat_interleave(features, dim=1), persistent=False)

    def forward(self, features_ND: Tensor) -> Tensor:
        """N x C."""
        return F.linear(features_ND, self.weight * self.own_CD, self.bias)


def own_state_loss(state_C: Tensor, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy over the classes of each image's own state."""
    others_NC = state_C[None] != state_C[labels][:, None]
    return F.cross_entropy(model(images).masked_fill(others_NC, -torch.inf), labels)


def learn_past(network: Network, task: Task, schedule: Schedule, features: int) -> None:
    """Where a lesson has images of past classes: their rows learn from them, and nothing else moves."""
    of_past = (task.labels < task.past_classes).nonzero().flatten()
    if len(of_past) == 0:
        return
    layer, state_C = network.linear, state_of_rows(network.linear, features).to(task.fabric.device)
    network.linear = ApartLayer(layer, state_C, features)
    with held(network):
        fit(network, task.of(of_past), schedule, partial(own_state_loss, state_C), stage="past classes")
    network.linear = layer
