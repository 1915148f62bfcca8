"""FineTune: classification loss only, all layers move. The trajectory behind FT and all heads read from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scail.config import Recipe, Schedule, Schedules
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training.joint import Joint
from scail.training.loop import LOOP_VERSION, fit
from scail.training.task import Task
from scail.training.trainer import Trainer


@dataclass(frozen=True)
class FineTune(Trainer):
    """State 0 as in `Joint`; then the previous network goes on with new classes and exemplars."""

    title = "FT"
    schedules = ("first", "later")
    first: Joint
    schedule: Schedule
    keep_past_rows: bool = False
    """Keep the past rows of the linear layer; otherwise all of it is re-created in each state."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 as in `Joint`."""
        first = Joint.of(recipe, schedules, total_classes)
        return cls(first, schedules["later"], recipe.keep_past_rows)

    def train(self, task: Task) -> Network:
        """The network after this state."""
        if task.previous is None:
            return self.first.train(task)
        network = self.widened(task, task.previous)
        fit(network, task, self.schedule)
        return network

    def widened(self, task: Task, previous: Network) -> Network:
        """A copy of the previous network with a linear layer for all classes seen."""
        network = previous.clone()
        fresh = generator_for(task.seed, "linear", task.state)
        network.recreate_linear(task.num_classes, fresh, keep_past=self.keep_past_rows)
        return network

    def epochs(self, state: int, images: int) -> int:
        """How many epochs this state takes at most."""
        return self.schedule.most_epochs(images) if state else self.first.epochs(state, images)

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is the first training's and nothing else: every trajectory that begins alike shares it."""
        if state == 0:
            return self.first.settings(state)
        schedule = self.schedule.record()
        return {
            "trainer": "fine_tune",
            "loop": LOOP_VERSION,
            "schedule": schedule,
            "keep_past_rows": self.keep_past_rows,
        }
