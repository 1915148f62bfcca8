"""Steps of SGD on whole batches, whoever holds which part of a batch: one process, or several ranks.

A part may go through the network in micro-batches: one after another, before one step.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from scail.runtime.ranks import Ranks

if TYPE_CHECKING:
    from lightning_fabric import Fabric

M = TypeVar("M", bound=nn.Module)


@contextlib.contextmanager
def prepared(network: M, device: torch.device, sync_batch_norm: bool) -> Iterator[M]:
    """What to train so that `network` is trained in the end: itself, on the device.

    With `sync_batch_norm` a copy that normalises with the statistics of all ranks' images: `network` gets its weights,
    and stays an ordinary one.
    """
    if not sync_batch_norm:
        yield network.to(device).train()
        return
    synchronised = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(network)).to(device).train()
    yield synchronised
    network.to(device).load_state_dict(synchronised.state_dict())


class Stepper:
    """Trains `network`: all ranks take each step together, and hold the same network after it."""

    def __init__(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, fabric: Fabric, ranks: Ranks,
        micro_batch: int = 0, summed: bool = False,
    ) -> None:  # fmt: skip
        self.network, self.fabric, self.ranks = network, fabric, ranks
        self.micro_batch, self.summed = micro_batch, summed
        self.last: Tensor | float = 0.0
        """Mean loss of this rank's last micro-batch."""
        self.model, self.optimizer = fabric.setup(network, optimizer)
        # Where a part of the network is held, its norms are in evaluation mode, and stay as they are to the bit.
        norms = [module for module in network.modules() if isinstance(module, _BatchNorm) and module.training]
        self.synchronised = any(isinstance(norm, nn.SyncBatchNorm) for norm in norms)
        # Running means and variances that every rank takes from its own images; synchronised ones are equal anyway.
        own = (norm for norm in norms if not isinstance(norm, nn.SyncBatchNorm))
        self.statistics = [of for norm in own for of in (norm.running_mean, norm.running_var) if of is not None]

    def step(
        self, loss_of: Callable[[nn.Module, Tensor, Tensor], Tensor], images: Tensor, labels: Tensor, whole: int
    ) -> Tensor:
        """One step down the mean loss of a batch of `whole` images; here is this rank's part of it, perhaps none.

        Gives the sum of the loss over this part. Of summed micro-batches each counts as a whole batch does.
        """
        images, labels = self.fabric.to_device((images, labels))
        self.optimizer.zero_grad(set_to_none=True)
        count = micro_batches(whole, self.micro_batch * self.ranks.count)
        # Every count-th image: so each of them has new images and exemplars as the batch has.
        pieces = [(images[at::count], labels[at::count]) for at in range(count)] if count > 1 else [(images, labels)]
        total = torch.zeros((), dtype=torch.float64, device=images.device)
        for at, (some, of_some) in enumerate(pieces):
            with self.fabric.no_backward_sync(self.model, enabled=at + 1 < count):
                total = total + self._backward(loss_of, some, of_some, whole)
        self.optimizer.step()
        self.ranks.average(self.statistics, len(images) / whole)
        return total

    def _backward(
        self, loss_of: Callable[[nn.Module, Tensor, Tensor], Tensor], images: Tensor, labels: Tensor, whole: int
    ) -> Tensor:
        """Add the gradient of these images; gives the sum of their loss."""
        loss = loss_of(self.model, images, labels) if len(images) else self._nothing(images)
        share = float(len(images) > 0) if self.summed else len(images) / whole
        # DDP takes the mean over ranks: weighted, it is the mean over the images of the whole batch.
        self.fabric.backward(loss if share * self.ranks.count == 1 else loss * (share * self.ranks.count))
        self.last = loss.detach()
        return loss.detach().double() * len(images)

    def _nothing(self, images: Tensor) -> Tensor:
        """A loss of 0 for a rank without an image in this batch: it takes part in the exchange of gradients."""
        # An ordinary batch norm has nothing to normalise, and learns nothing.
        self.network.train(self.synchronised)
        # A parameter that only a loss uses takes part, too.
        every = torch.stack([p.sum() for p in self.network.parameters() if p.requires_grad]).sum()
        loss: Tensor = (self.model(images).sum() + every) * 0
        self.network.train()
        return loss


def micro_batches(images: int, most: int) -> int:
    """In how many micro-batches of at most so many images a batch goes through the network; 0: in one."""
    return math.ceil(images / most) if most else 1
