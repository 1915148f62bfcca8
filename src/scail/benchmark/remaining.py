"""How long trajectories under way will still take: by the images left, and what was done of them in which time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import mean

from scail.benchmark.finished import Finished
from scail.benchmark.trajectory import Training, Trajectory


class Remaining:
    """Follows trajectories. How early trainings end is taken from those that ended: in the store, and meanwhile."""

    def __init__(
        self, trajectories: Sequence[Trajectory], finished: Finished, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.finished, self.now = finished, now
        self.passes = [one.passes for one in trajectories]
        self._trainings = [_trainings(one) for one in trajectories]
        self._ended: list[dict[int, int]] = [{} for _ in trajectories]  # images of states that have ended
        self._current = [(0, 0)] * len(trajectories)  # the state at hand, and images of it
        self._gone = [0] * len(trajectories)  # images gone through in this run
        self._began: dict[int, float] = {}

    def went(self, number: int, state: int, images: int) -> None:
        """A trajectory went through so many more images of a state."""
        self._began.setdefault(number, self.now())
        at, before = self._current[number]
        self._current[number] = state, (before if at == state else 0) + images
        self._gone[number] += images

    def ended(self, number: int, state: int, images: int, trained: bool) -> None:
        """A state has ended after so many images; `trained`: in this run, so that others learn from it."""
        self._ended[number][state] = images
        training = self._trainings[number][state]
        if trained and training is not None and training.may_end:
            self.finished.add(training.kind, training.epochs, images / max(1, self.passes[number][state]))

    def done(self, number: int) -> int:
        """Images that count as done."""
        state, images = self._current[number]
        return sum(self._ended[number].values()) + (images if state not in self._ended[number] else 0)

    def total(self, number: int) -> int:
        """Images that there will probably be, those that are done among them."""
        return sum(self._expected(number, state) for state in range(len(self.passes[number])))

    def seconds(self, numbers: Sequence[int]) -> float | None:
        """How long these trajectories will still take, at their speed so far; None: nothing was trained yet."""
        gone, began = sum(self._gone[n] for n in numbers), [self._began[n] for n in numbers if n in self._began]
        if not gone or (passed := self.now() - min(began)) <= 0:
            return None
        return passed * sum(self.total(n) - self.done(n) for n in numbers) / gone

    def known(self, numbers: Sequence[int]) -> bool:
        """Whether it can be said how early their trainings end; else they are counted to their limits."""
        return bool(self.finished.shares) or not any(t and t.may_end for n in numbers for t in self._trainings[n])

    def _expected(self, number: int, state: int) -> int:
        if state in self._ended[number]:
            return self._ended[number][state]
        at, images = self._current[number]
        return max(images if at == state else 0, round(self.passes[number][state] * self._share(number, state)))

    def _share(self, number: int, state: int) -> float:
        """Of those of its kind; where there are none, of all that are known."""
        training = self._trainings[number][state]
        if training is None or not training.may_end:
            return 1.0
        share = self.finished.share(training)
        if share is None and self.finished.shares:
            share = mean(chain.from_iterable(s for of in self.finished.shares.values() for s in of.values()))
        return 1.0 if share is None else share


def _trainings(trajectory: Trajectory) -> list[Training | None]:
    known = trajectory.trainings
    return [known.get(key) for key in trajectory.keys]
