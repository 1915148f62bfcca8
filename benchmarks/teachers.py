"""Trainers with a teacher against the bare limit of their own passes: forward, backward, step; the teacher's forward.

The bare step has a batch ready in memory, and cross-entropy for a loss. So what a trainer's own terms cost counts
against it, as cropping and mirroring do. In 32 bits, on one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.training import BATCH, CLASSES, fresh, shares_of, times_of
from scail.networks.channels import Masked
from scail.networks.columns import with_column
from scail.networks.cosine_linear import CosineLinear
from scail.networks.network import Network, drawn_linear
from scail.networks.precision import FULL
from scail.runtime.allocation import keep_freed_memory
from scail.runtime.seeds import generator_for
from scail.training.apart import new_classes_loss
from scail.training.bic import bias_aware_loss
from scail.training.der import WithAuxiliary, expanded_loss
from scail.training.der_pruned import SPARSITY, STEEPEST, sparse_loss
from scail.training.earlier_models import Teacher, held, masked
from scail.training.end_to_end import distilled_cross_entropy
from scail.training.losses import BatchLoss, teacher_of
from scail.training.lucir import rebalanced_loss
from scail.training.m2kd import multi_model_loss
from scail.training.podnet import PROXIES, held_loss
from scail.training.progressive import OfNewest
from scail.training.threshold_moving import softened_loss
from scail.training.wa import never_negative

NETWORKS = (("resnet8-half", 60), ("resnet32", 25))
"""Network, batches."""
PAST = 10


def expand(network: Network) -> None:
    """One more extractor, and both layers."""
    each = network.feature_size
    network.grow()
    network.recreate_linear(CLASSES, generator_for(3, "layer"))
    auxiliary = drawn_linear(each, 1 + CLASSES - PAST, generator_for(4, "layer"))
    network.linear = WithAuxiliary(network.linear, auxiliary)


def add_auxiliary(network: Network, classes: int) -> None:
    """Both layers for so many classes; the inner one sees half as many features."""
    network.linear = drawn_linear(network.feature_size, classes, generator_for(3, "layer"))
    network.auxiliary = drawn_linear(network.feature_size // 2, classes, generator_for(4, "layer"))


def kept_in_bounds(name: str, model: Network) -> AbstractContextManager[None]:
    """What a trainer sees to after every step."""
    if name == "wa":
        return never_negative(model.linear)
    if name == "m2kd":
        return held(model.backbone, [w > 0 for w in masked(model.backbone)], torch.device("cpu"))
    return nullcontext()


def expand_with_masks(network: Network) -> None:
    """The same, and masks on the new one's channels."""
    expand(network)
    parts = network.backbone.get_submodule("parts")
    assert isinstance(parts, nn.ModuleList)
    parts[-1] = Masked(parts[-1], BATCH, STEEPEST)


def add_column(network: Network) -> None:
    """One more column, with a layer of its own."""
    features = network.feature_size
    network.become(
        with_column(network.backbone, fresh(network.name).backbone, 3, generator_for(3, "draw")), 2 * features
    )
    network.linear = OfNewest(drawn_linear(features, CLASSES, generator_for(4, "layer")))


@dataclass(frozen=True)
class Case:
    """A trainer's network and loss."""

    loss: Callable[[Network], BatchLoss]
    proxies: int = 0
    """Rows of each class of a layer that goes by angles; 0: an ordinary layer."""
    grow: Callable[[Network], None] | None = None
    """The teacher's place is taken by a frozen extractor beside the one that is trained."""
    auxiliary: bool = False
    """Both have a layer inside; and half of the weights are held."""


CASES = {
    "e2e": Case(lambda teacher: partial(distilled_cross_entropy, teacher)),
    "wa": Case(lambda teacher: partial(bias_aware_loss, teacher, 0.5)),
    "lucir": Case(lambda teacher: partial(rebalanced_loss, teacher, PAST, 5.0, 10.0), 1),
    "threshold_moving": Case(lambda teacher: partial(softened_loss, teacher, 1.0, 2.0)),
    "podnet": Case(lambda teacher: partial(held_loss, teacher, 1.0, 3.0), PROXIES),
    "der": Case(lambda _: partial(expanded_loss, PAST, CLASSES), grow=expand),
    "der_pruned": Case(lambda _: partial(sparse_loss, SPARSITY, PAST, CLASSES), grow=expand_with_masks),
    "progressive": Case(lambda _: partial(new_classes_loss, 0), grow=add_column),
    "m2kd": Case(
        lambda teacher: partial(multi_model_loss, [Teacher(torch.arange(PAST), teacher)], 1.0, 1.0), auxiliary=True
    ),
}


def network_of(name: str, proxies: int, classes: int = CLASSES) -> Network:
    """A fresh network with the layer that the trainer has."""
    network = fresh(name)
    if proxies:
        network.linear = CosineLinear(network.feature_size, classes, proxies).drawn(generator_for(2, "layer"))
    return network


def bare_step(name: str, proxies: int, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    """Both networks' passes on one batch that is ready in memory, and a step."""
    model, teacher = network_of(name, proxies).train(), teacher_of(network_of(name, proxies))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, foreach=True)
    pixels = ((images[:BATCH].float() - 128) / 64).contiguous(memory_format=torch.channels_last)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            teacher.linear(teacher.backbone(pixels))
        F.cross_entropy(model.linear(model.backbone(pixels)), labels[:BATCH]).backward()
        optimizer.step()

    return step


def main(names: list[str]) -> None:
    """Measure and print."""
    keep_freed_memory()  # as every training process does; the bare limit has it, too
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    for network, batches in NETWORKS:
        images = torch.randint(0, 256, (batches * BATCH, 3, 32, 32), dtype=torch.uint8, generator=draw)
        labels = torch.randint(0, CLASSES, (len(images),), generator=draw)
        for name in names or CASES:
            case = CASES[name]
            steps = {"bare": bare_step(network, case.proxies, images, labels)}
            model, teacher = network_of(network, case.proxies), teacher_of(network_of(network, case.proxies))
            if case.grow:
                case.grow(model)
            if case.auxiliary:
                add_auxiliary(model, CLASSES)
                add_auxiliary(teacher, PAST)
            with kept_in_bounds(name, model):
                times = times_of(model, images, labels, FULL, steps, case.loss(teacher))
            print(f"{network}, {name}: {shares_of(times, 'bare')}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
