"""What a user sees while a run is under way: live bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from scail.benchmark.configuration import describe
from scail.benchmark.finished import Finished
from scail.benchmark.remaining import Remaining
from scail.cli.shown import shown
from scail.networks.timing import duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from scail.benchmark.trajectory import Trajectory
    from scail.benchmark.workers import Update


_MOST_BARS = 12  # with more trajectories than fit on a screen only those at work have a bar


class Display:
    """Shows every trajectory's state, epoch, images per second and time left."""

    def __init__(self, console: Console, finished: Finished | None = None) -> None:
        self.console, self.known = console, finished or Finished()
        self.trajectories: Sequence[Trajectory] = ()
        self._bars: Progress | None = None
        self._all: TaskID | None = None
        self._tasks: list[TaskID] = []
        self._recent: list[deque[tuple[float, int]]] = []
        self._remaining = Remaining((), self.known)
        self._finished = 0
        self._state_started: dict[int, float] = {}
        self._loss: dict[int, float] = {}

    def begin(self, trajectories: Sequence[Trajectory]) -> None:
        """The trajectories are known: show them all."""
        self.trajectories, self._remaining = trajectories, Remaining(trajectories, self.known)
        configurations = [one.configuration for one in trajectories]
        for text in dict.fromkeys(map(describe, configurations)):
            self._say(text)
        for note in dict.fromkeys(note for one in configurations for note in one.notes):
            self._say(f"note: {note}")
        self._recent = [deque(maxlen=50) for _ in trajectories]
        if not self.console.is_terminal:
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._bars = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TaskProgressColumn(),
            TextColumn("{task.fields[where]}"), TextColumn("{task.fields[speed]}"), TextColumn("{task.fields[left]}"),
            console=self.console,
        )  # fmt: skip
        few = len(trajectories) <= _MOST_BARS
        self._tasks = [
            self._bars.add_task(
                shown(one.title), total=self._remaining.total(number), where="waiting", speed="", left="", start=False,
                visible=few,
            )
            for number, one in enumerate(trajectories)
        ]  # fmt: skip
        if len(trajectories) > 1:
            self._all = self._bars.add_task("all trainings", where="", speed="", left="")
        self._bars.start()

    def receive(self, update: Update) -> None:
        """Something happened in a trajectory."""
        number = update.trajectory
        of, states = self.trajectories[number], len(self._remaining.passes[number])
        where = f"state {update.state}" if states > 1 else "all classes"
        if update.note is not None:
            self._state_started[number] = time.monotonic()
            self._say(f"{of.title}: {where}: {update.note}")
        if update.done:
            self._finished += 1
            if len(self.trajectories) > 1:
                left = f", {text}" if (text := self._left(range(len(self.trajectories)))) else ""
                self._say(f"{self._finished} of {len(self.trajectories)} trainings through all states are done{left}")
            if self._bars is not None and self._all is not None:
                self._bars.update(self._tasks[number], visible=False)
        if (progress := update.progress) is not None:
            self._remaining.went(number, update.state, progress.images)
            self._recent[number].append((time.monotonic(), self._remaining.done(number)))
            if progress.loss is not None:
                self._loss[number] = progress.loss
            epoch = f"{progress.unit} {min(progress.epoch + 1, progress.epochs)}/{progress.epochs}"
            self._show(
                number,
                f"{where} of 0..{states - 1}, {epoch}" if states > 1 else epoch,
                f"{self._speed(number):.0f} images/s",
            )
        if (measured := update.measured) is not None:
            row = measured.rows[0]
            images = (row.cost or {}).get("image_passes", self._remaining.passes[number][update.state])
            self._remaining.ended(number, update.state, images, trained=row.trained_epochs > 0)
            self._show(number, where, "")
            took = time.monotonic() - self._state_started[number]
            loss = self._loss.pop(number, None)
            self._say(
                f"{of.title}: {where}: {row.classes} classes, {row.label} top-1 {row.top1:.1f} %, "
                f"top-5 {row.top5:.1f} %"
                + (f", training loss {loss:.3f}" if loss is not None else "")
                + (
                    f", {row.generated_top1:.0f} % of generated images recognised"
                    if row.generated_top1 is not None
                    else ""
                )
                + f" ({took:.1f} s)"
            )

    def end(self) -> None:
        """Take the bars away."""
        if self._bars is not None:
            self._bars.stop()

    def _say(self, text: str) -> None:
        text = shown(text)
        if self._bars is None:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            self._bars.console.print(text, highlight=False, markup=False, style="dim")

    def _show(self, number: int, where: str, speed: str) -> None:
        if self._bars is not None:
            if not self._bars.tasks[number].started:
                self._bars.start_task(self._tasks[number])
                self._bars.update(self._tasks[number], visible=True)
            remaining, numbers = self._remaining, range(len(self.trajectories))
            if self._all is not None:
                done, total = (sum(map(count, numbers)) for count in (remaining.done, remaining.total))
                self._bars.update(self._all, completed=done, total=total, left=self._left(numbers))
            self._bars.update(
                self._tasks[number], completed=remaining.done(number), total=remaining.total(number), where=where,
                speed=speed, left=self._left([number]),
            )  # fmt: skip

    def _left(self, numbers: Sequence[int]) -> str:
        """How long these trajectories will still take; empty: it is not known, or they are done."""
        seconds = self._remaining.seconds(numbers)
        most = "" if self._remaining.known(numbers) else "at most "
        return f"{most}{duration(seconds)} left" if seconds and seconds >= 0.5 else ""

    def _speed(self, number: int) -> float:
        (begin, before), (now, done) = self._recent[number][0], self._recent[number][-1]
        return (done - before) / (now - begin) if now > begin else 0.0
