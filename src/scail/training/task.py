"""What a trainer is given, and what it reports while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from scail.images import Augmentation
from scail.network import Network
from scail.store import Checkpoint

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Interrupted(KeyboardInterrupt):
    """The training was asked to stop; what was done so far is in its checkpoint."""


@dataclass(frozen=True)
class Progress:
    """Where a training stands, after each batch."""

    epoch: int
    """Finished epochs."""
    epochs: int
    images: int
    """Images of the last batch."""
    loss: float | None = None
    """Mean training loss of the epoch that just ended."""


@dataclass(frozen=True)
class Task:
    """One state's training: all that a trainer may see of it."""

    state: int
    images: Tensor
    """uint8, N x channels x H x W: all images of the new classes, then the exemplars of the past ones."""
    labels: Tensor
    num_classes: int
    """Classes seen, the new ones included."""
    previous: Network | None
    """The network of the state before; None in state 0."""
    augmentation: Augmentation
    seed: int
    fabric: Fabric
    report: Callable[[Progress], None] = lambda progress: None
    stop_asked: Callable[[], bool] = lambda: False
    checkpoint: Checkpoint | None = None
    """Where the training is saved after every epoch, and from where it goes on."""


class Trainer(Protocol):
    """The first seam: how the network of a state is trained."""

    def train(self, task: Task) -> Network:
        """The network after this state."""
        ...

    def epochs(self, state: int) -> int:
        """How many epochs this state takes."""
        ...

    def settings(self, state: int) -> dict[str, object]:
        """Everything that decides the result of this state, and nothing else: it goes into the state's key."""
        ...
