"""Where a training stands, and its checkpoint: saved after any batch, it goes on from there to the bit."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.optim import Optimizer

from scail.networks.network import Network
from scail.storage.entry import Entry
from scail.training.task import Task

_KEPT = {"momentum_buffer": "momentum", "exp_avg": "mean", "exp_avg_sq": "square", "step": "steps"}
"""What optimizers know of a weight: SGD its momentum, Adam the rest; and the name that a checkpoint has for it."""


@dataclass
class Position:
    """Where the training stands: all that is needed to go on from here."""

    network: Network
    optimizer: Optimizer
    stage: str
    batch: int = 0
    """Batches done in this epoch."""
    loss: Tensor | float = 0.0
    """Sum of the loss over their images, of this rank."""
    losses: list[float] = field(default_factory=list)
    """Mean loss of each finished epoch."""
    last: Tensor | float = 0.0
    """Mean loss of the last micro-batch, where micro-batches are summed: it has the last word of its epoch."""
    last_words: list[float] = field(default_factory=list)
    """What the plateau rule goes by then."""

    @property
    def judged(self) -> list[float]:
        """The losses of finished epochs that decide the rate of the next one."""
        return self.last_words or self.losses

    def end_epoch(self, mean_loss: float, last_word: float | None = None) -> None:
        """Stand at the beginning of the next one."""
        self.losses, self.batch, self.loss = [*self.losses, mean_loss], 0, 0.0
        self.last_words += [] if last_word is None else [last_word]

    def save(self, task: Task) -> None:
        """Weights, what the optimizer knows, and place. Random numbers and learning rate follow from the place."""
        losses = task.ranks.gathered(float(self.loss))
        if task.checkpoint is None:
            return
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for i, p in enumerate(self.network.parameters()):
            known = self.optimizer.state[p]
            tensors |= {f"{_KEPT[of]}.{i}": known[of] for of in _KEPT if known.get(of) is not None}
        loss = losses[0] if len(losses) == 1 else losses
        last = {"last": float(self.last), "last_words": self.last_words}
        entry = Entry(tensors, {"batch": self.batch, "loss": loss, "losses": self.losses, **last})
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

    def _take(self, entry: Entry, task: Task) -> None:
        """Weights, what the optimizer knew, and place of a checkpoint."""
        weights = {k.removeprefix("network."): v for k, v in entry.tensors.items() if k.startswith("network.")}
        self.network.load_state_dict(weights)
        for i, p in enumerate(self.network.parameters()):
            for of, name in _KEPT.items():
                if (known := entry.tensors.get(f"{name}.{i}")) is not None:
                    like = known if of == "step" else p
                    self.optimizer.state[p][of] = torch.empty_like(like).copy_(known).detach()
        self.batch, loss, self.losses = (entry.facts[name] for name in ("batch", "loss", "losses"))
        self.loss = loss[task.ranks.rank] if isinstance(loss, list) else loss
        # A checkpoint of before has neither, and needs neither.
        self.last, self.last_words = entry.facts.get("last", 0.0), entry.facts.get("last_words", [])
        numbers = (self.batch, self.loss, self.last, *self.losses, *self.last_words)
        if not all(isinstance(number, int | float) for number in numbers):
            raise TypeError("place")
