"""What a user sees while a run is under way: live bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from scail.benchmark.configuration import describe

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from scail.benchmark.workers import Job, Update


_MOST_BARS = 12  # with more jobs than fit on a screen only those at work have a bar


class Display:
    """Shows every trajectory's state, epoch, images per second and time left."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.jobs: Sequence[Job] = ()
        self._bars: Progress | None = None
        self._all: TaskID | None = None
        self._tasks: list[TaskID] = []
        self._passes: list[list[int]] = []
        self._recent: list[deque[tuple[float, int]]] = []
        self._done: list[int] = []
        self._finished = 0
        self._state_started: dict[int, float] = {}
        self._loss: dict[int, float] = {}

    def begin(self, jobs: Sequence[Job]) -> None:
        """The jobs are known: show them all."""
        self.jobs, self._passes = jobs, [job.image_passes() for job in jobs]
        for text in dict.fromkeys(describe(job.setup) for job in jobs):
            self._say(text)
        for note in dict.fromkeys(note for job in jobs for note in job.setup.notes):
            self._say(f"note: {note}")
        self._recent, self._done = [deque(maxlen=50) for _ in jobs], [0] * len(jobs)
        if not self.console.is_terminal:
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(),
            TextColumn("{task.fields[where]}"), TextColumn("{task.fields[speed]}"), TimeRemainingColumn(),
            console=self.console,
        )  # fmt: skip
        few = len(jobs) <= _MOST_BARS
        self._tasks = [
            self._bars.add_task(job.title, total=sum(passes), where="waiting", speed="", start=False, visible=few)
            for job, passes in zip(jobs, self._passes, strict=True)
        ]
        if not few:
            total = sum(map(sum, self._passes))
            self._all = self._bars.add_task("all trajectories", total=total, where="", speed="")
        self._bars.start()

    def receive(self, update: Update) -> None:
        """Something happened in a job."""
        job, states = self.jobs[update.job], len(self._passes[update.job])
        where = f"state {update.state}" if states > 1 else "all classes"
        if update.note is not None:
            self._state_started[update.job] = time.monotonic()
            self._say(f"{job.title}: {where}: {update.note}")
        if update.done:
            self._finished += 1
            if len(self.jobs) > 1:
                self._say(f"{self._finished} of {len(self.jobs)} trajectories are done")
            if self._bars is not None and self._all is not None:
                self._bars.update(self._tasks[update.job], visible=False)
        if (progress := update.progress) is not None:
            self._done[update.job] += progress.images
            self._recent[update.job].append((time.monotonic(), self._done[update.job]))
            if progress.loss is not None:
                self._loss[update.job] = progress.loss
            epoch = f"epoch {min(progress.epoch + 1, progress.epochs)}/{progress.epochs}"
            self._show(
                update.job,
                f"{where} of 0..{states - 1}, {epoch}" if states > 1 else epoch,
                f"{self._speed(update.job):.0f} images/s",
            )
        if (measured := update.measured) is not None:
            self._done[update.job] = sum(self._passes[update.job][: update.state + 1])
            self._show(update.job, where, "")
            row = measured.rows[0]
            took = time.monotonic() - self._state_started[update.job]
            loss = self._loss.pop(update.job, None)
            self._say(
                f"{job.title}: {where}: {row.classes} classes, {row.label} top-1 {row.top1:.1f} %, "
                f"top-5 {row.top5:.1f} %"
                + (f", training loss {loss:.3f}" if loss is not None else "")
                + f" ({took:.1f} s)"
            )

    def end(self) -> None:
        """Take the bars away."""
        if self._bars is not None:
            self._bars.stop()

    def _say(self, text: str) -> None:
        if self._bars is None:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            self._bars.console.print(text, highlight=False, markup=False, style="dim")

    def _show(self, job: int, where: str, speed: str) -> None:
        if self._bars is not None:
            if not self._bars.tasks[job].started:
                self._bars.start_task(self._tasks[job])
                self._bars.update(self._tasks[job], visible=True)
            if self._all is not None:
                self._bars.update(self._all, completed=sum(self._done))
            self._bars.update(self._tasks[job], completed=self._done[job], where=where, speed=speed)

    def _speed(self, job: int) -> float:
        (begin, before), (now, done) = self._recent[job][0], self._recent[job][-1]
        return (done - before) / (now - begin) if now > begin else 0.0
