"""GrowingBrain: fine tuning a network whose capacity grows: each state widens its top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network
from scail.networks.widened import Widened, with_wider_top
from scail.runtime.seeds import generator_for
from scail.training.joint import Joint
from scail.training.loop import LOOP_VERSION, fit
from scail.training.task import Task
from scail.training.trainer import Trainer

NEW_UNITS = 0.5
"""So many new units for each unit that the top had at first."""


@dataclass(frozen=True)
class GrowingBrain(Trainer):
    """State 0 as in `Joint`. Later new units stand beside those of the top, all of them at unit length and scaled; then
    everything goes on learning, with a fresh layer."""

    title = "Growing a Brain"
    schedules = ("first", "growing_brain")
    first: Joint
    schedule: Schedule
    """Every later state."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 as in `Joint`."""
        return cls(Joint.of(recipe, schedules, total_classes), schedules["growing_brain"])

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            return self.first.train(task)
        network = task.previous.clone().cpu()
        if task.num_classes > task.past_classes:  # else there is nothing to grow for
            groups = len(network.backbone.tops) if isinstance(network.backbone, Widened) else 0
            width = max(1, int(network.feature_size / (1 / NEW_UNITS + groups)))
            wider = with_wider_top(network.backbone, width, generator_for(task.seed, "units", task.state))
            network.become(wider, network.feature_size + width)
            network.recreate_linear(task.num_classes, generator_for(task.seed, "linear", task.state))
        fit(network, task, self.schedule)
        return network

    def epochs(self, state: int, images: int) -> int:
        """How many epochs this state takes at most."""
        return self.schedule.most_epochs(images) if state else self.first.epochs(state, images)

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is shared with every trajectory that begins alike."""
        if state == 0:
            return self.first.settings(state)
        own = {"schedule": self.schedule.record(), "new_units": NEW_UNITS}
        return {"trainer": "growing_brain", "version": 1, "loop": LOOP_VERSION, **own}
