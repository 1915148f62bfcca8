"""The process that learns: `python -m scail.server.tutor MODEL DESK`. It carries out the jobs on the desk one by one.

One tutor at a time works at a desk. It may be killed at any moment: the model is as it was, and the next tutor goes on.
It ends when nothing is asked of it for a while, or when its server is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scail.server.desk import Desk, Job
from scail.storage.atomic import told
from scail.storage.lock import locked

if TYPE_CHECKING:
    from scail.classifier.model import Model
    from scail.training import Progress

MOST_ATTEMPTS = 5
_IDLE = 120.0  # seconds; what is loaded by then makes the next lesson quicker
_LOOK = 0.2  # seconds between looks at the desk
_FULL = 5.0  # seconds between tries to measure, where the disk is full
_OFTEN = 0.1  # seconds between two words on progress


class Orphaned(Exception):
    """The server that started this process is gone."""


def main(model: str, desk: str) -> None:
    """Work at the desk until there is nothing to do."""
    parent = os.getppid()

    def check() -> None:
        if os.getppid() != parent:
            raise Orphaned

    with contextlib.suppress(Orphaned):
        at = Desk(Path(desk))
        with locked(at.lock, waiting=check):
            at.sweep()
            work(Path(model), at, check)


def work(root: Path, desk: Desk, check: Callable[[], None] = lambda: None, idle: float = _IDLE) -> None:
    """Carry out what waits, and measure what was not measured yet, until nothing comes for so many seconds."""
    last = time.monotonic()
    while time.monotonic() - last < idle:
        check()
        if jobs := desk.waiting():
            carry_out(root, desk, jobs[0])
            last = time.monotonic()
        elif _measure_missing(root, desk):
            last = time.monotonic()
        else:
            time.sleep(_LOOK)


def carry_out(root: Path, desk: Desk, job: Job) -> None:
    """One job, from its first attempt or from where the one before was killed."""
    if job.attempts >= MOST_ATTEMPTS:
        text = f"was begun {job.attempts} times, and its process was killed each time; is there memory enough?"
        desk.end(job, status="failed", error=text)
        return
    job = desk.update(job, status="running", attempts=job.attempts + 1)
    try:
        from scail.server.changes import CHANGES, is_done

        with contextlib.redirect_stdout(_Said(desk, job)):  # what `scail learn` prints
            if job.attempts > 1 and is_done(root, job):
                result = measure(root, desk)
            else:
                result = CHANGES[job.kind](root, desk, job, _reporter(desk, job))
    except ValueError as error:  # a mistake that has a remedy: the text names it
        desk.end(job, status="failed", error=str(error))
    except OSError as error:
        desk.end(job, status="failed", error=told(error))
    except Exception as error:  # one job that fails is no reason not to do the next
        desk.end(job, status="failed", error=f"{type(error).__name__}: {error}")
    else:
        desk.end(job, status="done", result=result)


class _Said(io.TextIOBase):
    """Lines that are printed become events of the job."""

    def __init__(self, desk: Desk, job: Job) -> None:
        self._desk, self._job, self._rest = desk, job, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._desk.say(self._job, {"said": line})
        return len(text)


def _reporter(desk: Desk, job: Job) -> Callable[[Progress], None]:
    said = [0.0]

    def report(progress: Progress) -> None:
        if time.monotonic() - said[0] >= _OFTEN or progress.epoch >= progress.epochs:
            said[0] = time.monotonic()
            desk.say(job, {"done": progress.epoch, "of": progress.epochs, "unit": progress.unit})

    return report


def _measure_missing(root: Path, desk: Desk) -> bool:
    """Whether a model was there that nobody has measured: one that `scail learn` has changed."""
    stamp = stamp_of(root)
    if stamp is None or desk.report(stamp) is not None:
        return False
    try:
        measure(root, desk)
    except (ValueError, OSError) as error:
        desk.keep_report(stamp, {"accuracy": None, "classes": {}, "error": str(error)})
    if desk.report(stamp) is None:
        time.sleep(_FULL)
    return desk.report(stamp) is not None


def stamp_of(root: Path) -> str | None:
    """What changes whenever the model does; None where there is none."""
    from scail.classifier.folder.record import FolderError, read_record

    try:
        return hashlib.sha256(read_record(root)[1]).hexdigest()
    except (FolderError, OSError):
        return None


def measure(root: Path, desk: Desk) -> dict[str, Any]:
    """How well the model does that is there now, with its stamp; it is kept on the desk."""
    from scail.classifier.folder import read_model

    model, stamp = read_model(root)
    report = report_on(model)
    desk.keep_report(stamp, report)
    return {"stamp": stamp, **report}


def report_on(model: Model) -> dict[str, Any]:
    """How well each class does when its images are left out one by one; what that cannot be told of is left out."""
    from scail.classifier.left_out import left_out

    found = left_out(model)
    if found is None:
        return {"accuracy": None, "classes": {}}
    return {"accuracy": found.accuracy, "classes": {n: list(c) for n, c in found.of_classes(model.classes).items()}}


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(5)  # who asks for answers comes first
    main(*sys.argv[1:])
