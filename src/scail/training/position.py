"""Where a training stands, and its checkpoint: saved after any batch, it goes on from there to the bit."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.optim import SGD

from scail.networks.network import Network
from scail.storage.entry import Entry
from scail.training.task import Progress, Task


@dataclass
class Position:
    """Where the training stands: all that is needed to go on from here."""

    network: Network
    optimizer: SGD
    stage: str
    batch: int = 0
    """Batches done in this epoch."""
    loss: Tensor | float = 0.0
    """Sum of the loss over their images, of this rank."""
    losses: list[float] = field(default_factory=list)
    """Mean loss of each finished epoch."""

    def end_epoch(self, mean_loss: float) -> None:
        """Stand at the beginning of the next one."""
        self.losses, self.batch, self.loss = [*self.losses, mean_loss], 0, 0.0

    def save(self, task: Task) -> None:
        """Weights, momentum and place. Random numbers and learning rate need none: they follow from the place."""
        losses = task.ranks.gathered(float(self.loss))
        if task.checkpoint is None:
            return
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for i, p in enumerate(self.network.parameters()):
            if (momentum := self.optimizer.state[p].get("momentum_buffer")) is not None:
                tensors[f"momentum.{i}"] = momentum
        loss = losses[0] if len(losses) == 1 else losses
        entry = Entry(tensors, {"batch": self.batch, "loss": loss, "losses": self.losses})
        task.ranks.on_first(task.checkpoint.stage(self.stage).save, entry)

    def resume(self, task: Task) -> None:
        """Go on from the checkpoint, if there is one."""
        entry = task.ranks.decided(lambda: task.checkpoint.stage(self.stage).load() if task.checkpoint else None)
        if entry is None:
            return
        try:
            self._take(entry, task)
        except (KeyError, IndexError, TypeError, RuntimeError) as error:  # whole, but not of this training
            assert task.checkpoint is not None
            place = task.checkpoint.stage(self.stage).path
            raise ValueError(f"{place}: not the checkpoint of this training; remove it, and train anew") from error
        for epoch, loss in enumerate(self.losses):
            task.report(Progress(epoch + 1, len(self.losses), 0, loss))

    def _take(self, entry: Entry, task: Task) -> None:
        """Weights, momentum and place of a checkpoint."""
        weights = {k.removeprefix("network."): v for k, v in entry.tensors.items() if k.startswith("network.")}
        self.network.load_state_dict(weights)
        for i, p in enumerate(self.network.parameters()):
            if (momentum := entry.tensors.get(f"momentum.{i}")) is not None:
                self.optimizer.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(momentum).detach()
        self.batch, loss, self.losses = (entry.facts[name] for name in ("batch", "loss", "losses"))
        self.loss = loss[task.ranks.rank] if isinstance(loss, list) else loss
        if not all(isinstance(number, int | float) for number in (self.batch, self.loss, *self.losses)):
            raise TypeError("place")
