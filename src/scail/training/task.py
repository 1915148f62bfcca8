"""What a trainer is given, what it reports while it works, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from scail.datasets.dataset import Images
from scail.datasets.images.batches import Augmentation
from scail.networks.network import Network
from scail.runtime.ranks import ALONE, Ranks
from scail.storage.checkpoint import Checkpoint

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
    lowered: bool | None = None
    """Whether the plateau rule lowered the rate for the epoch that just ended; None: no such rule."""
    unit: str = "epoch"
    """What is counted: epochs, or images where nothing is trained."""


@dataclass(frozen=True)
class Task:
    """One state's training: all that a trainer may see of it."""

    state: int
    images: Images
    """N x channels x H x W: all images of the new classes, then the exemplars of the past ones, then further images of
    past classes, if there are any."""
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
    past_classes: int = 0
    """Classes seen before; labels from here on are new."""
    budget: int = 0
    """B, the images in memory."""
    budget_after: int | None = None
    """B after this state, where it grows with the classes; None: it stays."""
    carried: Mapping[str, Tensor] = field(default_factory=dict)
    """What the trainer itself left in the state before, beside the network."""
    exemplars: int = 0
    """How many of the images after the new ones are exemplars."""
    exemplar_features_ED: Tensor | None = None
    """Their features in the state before: still true, where the network does not move."""
    start: Network | None = None
    """State 0: a network to begin with, in place of a fresh one; its linear layer is made anew."""
    int8: bool = False
    """State 0: whether the network runs in 8 bits from now on, calibrated on these images."""
    half_new: int = 0
    """So many images at the front are new, and every batch is half of them, half others; 0: every image once."""
    ranks: Ranks = ALONE
    """The processes that train together; each has the whole task, and trains on its part of every batch."""
    sync_batch_norm: bool = False
    """Normalise with the statistics of all ranks' images."""

    def of(self, rows: Tensor) -> Task:
        """The same task on these of its images only."""
        return replace(self, images=self.images[rows], labels=self.labels[rows])


@dataclass(frozen=True)
class Trained:
    """What the training of a state leaves: enough to go on, and to work out memory and evidence for any budget."""

    network: Network
    new_indices: Tensor
    """Rows of the new classes' training images, class by class."""
    new_labels: Tensor
    exemplar_indices: Tensor
    """Rows of the exemplars that took part."""
    exemplar_labels: Tensor
    features_ND: Tensor
    """Features of all of them, new ones first, by this state's network."""
    rate_lowered: tuple[int, ...] | None = None
    """The epochs, from 1 on, for which the plateau rule lowered the rate; None: no such rule, or not known."""
