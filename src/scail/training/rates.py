"""The learning rate of each epoch, and when a training ends: the mean losses of the epochs before decide it alone.

`most` is how many epochs the training may take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scail.config import Schedule


def weight_decay(schedule: Schedule, state: int) -> float:
    """The weight decay of a state."""
    return schedule.weight_decay * (schedule.weight_decay_states / (state + 1) if schedule.weight_decay_states else 1)


def has_ended(schedule: Schedule, losses: Sequence[float], most: int) -> bool:
    """Whether the training is over."""
    if schedule.decay != "settle":
        return len(losses) >= most
    start = _fall_begins(schedule, losses, most)
    return start is not None and len(losses) >= start + _fall(start)


def learning_rate(schedule: Schedule, state: int, losses: Sequence[float], most: int) -> float:
    """The rate of the next epoch."""
    rate = schedule.lr / (state + 1) if schedule.divide_by_state else schedule.lr
    if schedule.decay == "cosine":
        return rate * 0.5 * (1 + math.cos(math.pi * len(losses) / most))
    if schedule.decay == "steps":
        return rate / schedule.divide_by ** sum(milestone <= len(losses) for milestone in schedule.milestones)
    if schedule.decay == "settle":
        start = _fall_begins(schedule, losses, most)
        return rate if start is None else rate * (1 - (len(losses) - start + 1) / (_fall(start) + 1))
    best, waited = math.inf, 0
    for loss in losses:
        better = loss < best * (1 - 1e-4)
        best, waited = (loss, 0) if better else (best, waited + 1)
        if waited > schedule.patience:
            rate, waited = rate / schedule.divide_by, 0
    return rate


def _fall(full: int) -> int:
    """How many epochs the rate falls for, after so many at the full rate."""
    return max(1, -(-full // 3))


def _fall_begins(schedule: Schedule, losses: Sequence[float], most: int) -> int | None:
    """After how many epochs the rate begins to fall: the loss no longer does, or the time is up; None: not yet."""
    for epoch in range(len(losses) + 1):
        if epoch + 1 + _fall(epoch + 1) > most or _no_longer_falls(losses[:epoch], schedule.patience, schedule.gain):
            return epoch
    return None


def _no_longer_falls(losses: Sequence[float], over: int, gain: float) -> bool:
    """Whether the mean of the last epochs is hardly below that of as many before them."""
    over = max(1, over)
    before, last = losses[-2 * over : -over], losses[-over:]
    return len(before) == over and sum(last) > (1 - gain) * sum(before)
