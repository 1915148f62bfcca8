"""The learning rate of each epoch, and when a training ends: the mean losses of the epochs before decide it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

from scail.config import Schedule


def weight_decay(schedule: Schedule, state: int) -> float:
    """The weight decay of a state."""
    states = schedule.weight_decay_states
    return schedule.weight_decay * (states / (state + 1) if states > 0 else 1)


@dataclass(frozen=True)
class Rates:
    """The rates of one training, on so many images."""

    schedule: Schedule
    state: int
    images: int

    @property
    def most(self) -> int:
        """How many epochs it takes at most."""
        return self.schedule.most_epochs(self.images)

    @property
    def fewest(self) -> int:
        """How many epochs it takes at least: as many as where the loss never falls."""
        return next(n for n in range(1, self.most + 1) if self.ended(range(n)))

    def ended(self, losses: Sequence[float]) -> bool:
        """Whether the training is over, after epochs with these mean losses."""
        if self.schedule.decay != "settle":
            return len(losses) >= self.most
        start = self._fall_begins(losses)
        return start is not None and len(losses) >= start + _fall(start)

    def next(self, losses: Sequence[float]) -> float:
        """The rate of the next epoch."""
        schedule = self.schedule
        rate = schedule.lr / (self.state + 1) if schedule.divide_by_state else schedule.lr
        if schedule.decay == "cosine":
            return rate * 0.5 * (1 + math.cos(math.pi * len(losses) / self.most))
        if schedule.decay == "steps":
            return rate / schedule.divide_by ** sum(milestone <= len(losses) for milestone in schedule.milestones)
        if schedule.decay == "settle":
            start = self._fall_begins(losses)
            return rate if start is None else rate * (1 - (len(losses) - start + 1) / (_fall(start) + 1))
        best, waited = math.inf, 0
        for loss in losses:
            better = loss < best * (1 - 1e-4)
            best, waited = (loss, 0) if better else (best, waited + 1)
            if waited > schedule.patience:
                rate, waited = rate / schedule.divide_by, 0
        return rate

    def _fall_begins(self, losses: Sequence[float]) -> int | None:
        """After how many epochs the rate begins to fall: the loss no longer does, or time is up; None: not yet."""
        over, gain = self.schedule.epochs_looked_at(self.images), self.schedule.gain
        for epoch in range(len(losses) + 1):
            if epoch + 1 + _fall(epoch + 1) > self.most or _no_longer_falls(losses[:epoch], over, gain):
                return epoch
        return None


def soonest(schedule: Schedule) -> Schedule:
    """The schedule, for counting alone: each of its trainings ends as soon as it may."""
    values = {field.name: getattr(schedule, field.name) for field in fields(Schedule)}
    return _Soonest(**values) if schedule.decay == "settle" else schedule


class _Soonest(Schedule):
    def most_epochs(self, images: int) -> int:
        return _fewest(Schedule(**{field.name: getattr(self, field.name) for field in fields(Schedule)}), images)


@lru_cache(maxsize=1024)
def _fewest(schedule: Schedule, images: int) -> int:
    return Rates(schedule, state=0, images=images).fewest


def _fall(full: int) -> int:
    """How many epochs the rate falls for, after so many at the full rate."""
    return max(1, -(-full // 3))


def _no_longer_falls(losses: Sequence[float], over: int, gain: float) -> bool:
    """Whether the mean of the last epochs is hardly below that of as many before them."""
    before, last = losses[-2 * over : -over], losses[-over:]
    return len(before) == over and sum(last) > (1 - gain) * sum(before)
