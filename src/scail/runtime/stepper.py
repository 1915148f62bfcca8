"""Steps of SGD on whole batches, whoever holds which part of a batch: one process, or several ranks."""

from __future__ import annotations

import contextlib
import copy
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

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, fabric: Fabric, ranks: Ranks) -> None:
        self.network, self.fabric, self.ranks = network, fabric, ranks
        self.model, self.optimizer = fabric.setup(network, optimizer)
        norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
        self.synchronised = any(isinstance(norm, nn.SyncBatchNorm) for norm in norms)
        # Running means and variances that every rank takes from its own images; synchronised ones are equal anyway.
        own = (norm for norm in norms if not isinstance(norm, nn.SyncBatchNorm))
        self.statistics = [of for norm in own for of in (norm.running_mean, norm.running_var) if of is not None]

    def step(
        self, loss_of: Callable[[nn.Module, Tensor, Tensor], Tensor], images: Tensor, labels: Tensor, whole: int
    ) -> Tensor:
        """One step down the mean loss of a batch of `whole` images; here is this rank's part of it, perhaps none.

        Gives the sum of the loss over this part.
        """
        images, labels = self.fabric.to_device((images, labels))
        self.optimizer.zero_grad(set_to_none=True)
        loss = loss_of(self.model, images, labels) if len(images) else self._nothing(images)
        share = len(images) / whole
        # DDP takes the mean over ranks: weighted, it is the mean over the images of the whole batch.
        self.fabric.backward(loss if self.ranks.count == 1 else loss * (share * self.ranks.count))
        self.optimizer.step()
        self.ranks.average(self.statistics, share)
        return loss.detach().double() * len(images)

    def _nothing(self, images: Tensor) -> Tensor:
        """A loss of 0 for a rank without an image in this batch: it takes part in the exchange of gradients."""
        # An ordinary batch norm has nothing to normalise, and learns nothing.
        self.network.train(self.synchronised)
        loss: Tensor = self.model(images).sum() * 0
        self.network.train()
        return loss
