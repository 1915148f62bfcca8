"""Joint: one training from scratch on everything at hand. State 0 of every trajectory, and Full."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from scail.images import channel_statistics
from scail.network import Network, create_network
from scail.recipes import Schedule
from scail.seeding import generator_for
from scail.training.loop import LOOP_VERSION, fit
from scail.training.task import Task, Trainer


@dataclass(frozen=True)
class Joint(Trainer):
    """A fresh network, trained with cross-entropy on all images of the task."""

    network: str
    schedule: Schedule

    def train(self, task: Task) -> Network:
        """The network after the training; its normalisation comes from these images too."""
        channels, fresh = task.images.shape[1], generator_for(task.seed, "network")
        network = create_network(self.network, channels, task.num_classes, fresh)
        network.mean, network.std = channel_statistics(task.images)
        fit(network, task, self.schedule)
        return network

    def epochs(self, state: int) -> int:
        """How many epochs this takes."""
        return self.schedule.epochs

    def settings(self, state: int) -> dict[str, object]:
        """What decides the result."""
        return {"trainer": "joint", "loop": LOOP_VERSION, "network": self.network, "schedule": asdict(self.schedule)}
