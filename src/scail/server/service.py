"""All that the routes of a server share: the model, the desk, the inbox, and the tutor that is started when needed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from scail.server.answers import Answers
from scail.server.current import Current, ServedModel
from scail.server.desk import Desk, Job
from scail.server.inbox import Inbox
from scail.server.metrics import Metrics
from scail.server.refusals import Refused
from scail.server.settings import ServerSettings

_BEAT = 0.25  # seconds between looks at the model's folder
_SLOW = 8  # beats between looks at the desk for what other servers put there
_ENDING = 5.0  # seconds that a tutor has to end


class Service:
    """A server's state. One per process; several may share a model and its desk."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.desk = Desk(settings.desk_folder)
        self.inbox = Inbox(self.desk.inbox, settings.inbox, settings.inbox_days)
        self.current, self.answers = Current(settings.model), Answers(settings.limits)
        self._tutor: subprocess.Popen[bytes] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._fresh: asyncio.Future[None] | None = None
        self._asked = True

    # The model

    def model(self) -> ServedModel:
        """The model that answers; nobody waits for a newer one."""
        if self.current.stale():
            self._begin_refresh()
        if self.current.model is None:
            raise Refused(503, self.current.trouble or "there is no model here yet; teach it a class first")
        return self.current.model

    async def refreshed(self) -> ServedModel | None:
        """The newest model: for whoever asks what has become of a lesson."""
        if self.current.stale():
            await self._begin_refresh()
        return self.current.model

    def _begin_refresh(self) -> asyncio.Future[None]:
        if self._fresh is None or self._fresh.done():
            self._fresh = asyncio.ensure_future(asyncio.to_thread(self.current.refresh))
        return self._fresh

    # Jobs

    async def begin(self, job: Job, pictures: list[bytes] | None = None) -> Job:
        """Put a job on the desk, and see to it that somebody does it."""
        if len(self.desk.waiting()) >= self.settings.limits.jobs:
            text = f"{self.settings.limits.jobs} jobs are waiting already; try again when some are done"
            raise Refused(503, text, {"Retry-After": "10"})
        try:
            await asyncio.to_thread(self.desk.add, job, pictures or [])
        except OSError as error:
            text = f"cannot write to {self.desk.root.name}: {error.strerror or error}; the model is as it was"
            raise Refused(507, text) from error
        self._asked = True
        self._see_to_tutor()
        return job

    @property
    def tutor(self) -> str:
        """What the process that learns is doing."""
        if self._tutor is None or self._tutor.poll() is not None:
            return "away"
        return "working" if self._asked else "idle"

    def _needs_tutor(self) -> bool:
        stamp = self.current.model.stamp if self.current.model else None
        return bool(self.desk.waiting()) or (stamp is not None and self.desk.report(stamp) is None)

    def _see_to_tutor(self) -> None:
        if self._tutor is None or self._tutor.poll() is not None:
            self._tutor = start_tutor(self.settings.model, self.desk.root)

    # From start to end

    async def open(self) -> None:
        """Read the model, and begin to watch its folder."""
        self.desk.make()
        await asyncio.to_thread(self.current.refresh)
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        beat = 0
        while True:
            with contextlib.suppress(OSError, ValueError):
                if self.current.stale():
                    await self._begin_refresh()
                    self._asked = True
                if self._asked or beat % _SLOW == 0:
                    self._asked = await asyncio.to_thread(self._needs_tutor)
                    if self._asked:
                        self._see_to_tutor()
            beat += 1
            await asyncio.sleep(_BEAT)

    async def close(self) -> None:
        """End. A lesson that is under way goes on when the server is there again."""
        if self._watching is not None:
            self._watching.cancel()
        if self._tutor is not None:
            await asyncio.to_thread(end_tutor, self._tutor)
        self.answers.close()
        await asyncio.to_thread(self.inbox.close)


def start_tutor(model: Path, desk: Path) -> subprocess.Popen[bytes]:
    """A process of its own, so that whoever asks for answers never waits, and needs no torch."""
    command = [sys.executable, "-m", "scail.server.tutor", str(model.resolve()), str(desk.resolve())]
    return subprocess.Popen(  # noqa: S603  (our own words, no shell)
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )


def end_tutor(tutor: subprocess.Popen[bytes]) -> None:
    """End it, gently at first."""
    tutor.terminate()
    try:
        tutor.wait(_ENDING)
    except subprocess.TimeoutExpired:
        tutor.kill()
        tutor.wait()
