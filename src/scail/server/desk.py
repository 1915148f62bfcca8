"""The server's own folder, beside the model's: what is to be learned, what came of it, and the inbox.

    DESK/jobs/ID/job.json       what is asked for, and how it stands
    DESK/jobs/ID/picture-N      what is to be learned; removed once it is
    DESK/jobs/ID/events.jsonl   what is said while it is done
    DESK/reports/STAMP.json     how well each class does, left out one by one
    DESK/inbox/                 pictures that were unknown or doubtful
    DESK/tutor.lock             held by the one process that learns

Several servers may share a desk, and one that starts anew finds what the one before has left. No torch is imported.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict

from scail.storage.atomic import ASIDE, LEFT, aside, write_bytes
from scail.storage.flushing import Flushed, make_folder
from scail.storage.reading import MIB, parsed, read_bounded, read_json
from scail.storage.records import decode

JOB_ID = re.compile(r"[0-9a-f]{24}")
STAMP = re.compile(r"[0-9a-f]{64}")
Kind = Literal["learn", "forget", "rename", "correct", "undo"]
Status = Literal["waiting", "running", "done", "failed"]
MOST_JOBS = 100
"""Jobs that are remembered once they have ended."""
_MOST_REPORTS = 8
_MOST_EVENTS, _MOST_SAID = 2000, 16 * MIB
"""Lines of a job that are read; bytes of all of them."""
_PICTURE = re.compile(r"picture-[0-9]{1,9}")


class _Report(TypedDict):
    """How well a model does: in all, and of each class how many images there were and how many were right."""

    accuracy: dict[str, float | int] | None
    classes: dict[str, list[int]]


@dataclass(frozen=True)
class Job:
    """A change of the model that somebody asked for."""

    id: str
    kind: Kind
    created: str
    classes: tuple[str, ...] = ()
    """learn: the class of each picture. Else the class that it is about."""
    to: str | None = None
    """rename, correct: the new name."""
    images: tuple[str, ...] = ()
    """forget, correct: single pictures, by the hash of their content."""
    inbox: tuple[str, ...] = ()
    """Pictures of the inbox that go once it is done."""
    status: Status = "waiting"
    attempts: int = 0
    """How often it was begun."""
    error: str | None = None
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ("done", "failed")


def new_job(kind: Kind, **given: Any) -> Job:
    """A job that waits. Names of jobs sort in the order in which they were made."""
    return Job(f"{time.time_ns():016x}{secrets.token_hex(4)}", kind, time.strftime("%Y-%m-%dT%H:%M:%S%z"), **given)


def desk_of(model: Path) -> Path:
    """Where the desk of a model is: beside it."""
    model = model.resolve()
    return model.with_name(f"{model.name}.serve")


class Desk:
    """The folder, read and written in single steps."""

    def __init__(self, root: Path) -> None:
        self.root, self.jobs, self.reports = root, root / "jobs", root / "reports"
        self.inbox, self.lock = root / "inbox", root / "tutor.lock"

    def make(self) -> None:
        """Make what is missing, for this user only."""
        for folder in (self.root, self.jobs, self.reports):
            make_folder(folder, 0o700)

    # Jobs

    def add(self, job: Job, pictures: Sequence[bytes] = ()) -> None:
        """Put a job and its pictures there in one step."""
        with aside(self.jobs / job.id) as begun:
            begun.mkdir(mode=0o700)
            for n, data in enumerate(pictures):
                (begun / f"picture-{n}").write_bytes(data)
            (begun / "job.json").write_text(json.dumps(asdict(job), ensure_ascii=False), encoding="utf-8")

    def job(self, name: str) -> Job | None:
        """The job of this name."""
        if not JOB_ID.fullmatch(name):
            return None
        try:
            record = read_json(self.jobs / name / "job.json")
            result = decode(dict, record.pop("result", {}), "result")
            found: Job = decode(Job, record, "job")
        except (OSError, ValueError):
            return None
        return replace(found, result=result)

    def all_jobs(self) -> list[Job]:
        """Every job, the oldest first."""
        names = sorted(path.name for path in self.jobs.iterdir()) if self.jobs.is_dir() else []
        return [job for name in names if (job := self.job(name)) is not None]

    def waiting(self) -> list[Job]:
        """Jobs that have not ended, the oldest first."""
        return [job for job in self.all_jobs() if not job.ended]

    def update(self, job: Job, **changed: Any) -> Job:
        """Write down how a job stands."""
        job = replace(job, **changed)
        write_bytes(self.jobs / job.id / "job.json", json.dumps(asdict(job), ensure_ascii=False).encode())
        return job

    def end(self, job: Job, **changed: Any) -> Job:
        """Write down what came of it; its pictures go, and so do jobs that ended long ago."""
        job = self.update(job, **changed)
        self._let_go(job)
        ended = [one for one in self.all_jobs() if one.ended]
        for one in ended[:-MOST_JOBS]:
            shutil.rmtree(self.jobs / one.id, ignore_errors=True)
        return job

    def _let_go(self, job: Job) -> None:
        for path in self.pictures(job):
            path.unlink(missing_ok=True)

    def pictures(self, job: Job) -> list[Path]:
        """Its pictures, in order."""
        found = (path for path in (self.jobs / job.id).glob("picture-*") if _PICTURE.fullmatch(path.name))
        return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))

    def say(self, job: Job, event: Mapping[str, Any]) -> None:
        """One more line on how it goes; where none can be written, it goes on all the same."""
        with contextlib.suppress(OSError), (self.jobs / job.id / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")

    def events(self, name: str, after: int = 0) -> list[dict[str, Any]]:
        """What was said of a job, from this line on."""
        try:
            data = read_bounded(self.jobs / name / "events.jsonl", _MOST_SAID)
        except (OSError, ValueError):
            return []
        return [_event(line) for line in data.split(b"\n")[:-1][after:_MOST_EVENTS]]

    def sweep(self) -> None:
        """Remove what processes that died were writing, and pictures of jobs that ended. Hold the tutor's lock."""
        for job in (one for one in self.all_jobs() if one.ended):
            self._let_go(job)
        for folder in (self.jobs, self.reports, *self._folders()):
            for path in folder.iterdir() if folder.is_dir() else ():
                if ASIDE.fullmatch(path.name) and time.time() - path.stat().st_mtime > LEFT:
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _folders(self) -> Iterator[Path]:
        yield self.inbox
        yield from (path for path in self.jobs.iterdir() if JOB_ID.fullmatch(path.name)) if self.jobs.is_dir() else ()

    # Reports

    def report(self, stamp: str) -> dict[str, Any] | None:
        """How well the classes of this model do, if it was measured."""
        try:
            found: dict[str, Any] = decode(_Report, read_json(self.reports / f"{stamp}.json"), "report")
        except (OSError, ValueError):
            return None
        return found if all(len(counts) == 2 for counts in found["classes"].values()) else None

    def keep_report(self, stamp: str, report: Mapping[str, Any]) -> None:
        """Keep this report, and a few before it; where none can be written, it will be measured again."""
        assert STAMP.fullmatch(stamp)
        data = json.dumps(report, ensure_ascii=False).encode()
        with contextlib.suppress(OSError):
            write_bytes(self.reports / f"{stamp}.json", data, Flushed.NOTHING)
            kept = sorted(
                (path for path in self.reports.glob("*.json") if STAMP.fullmatch(path.stem)),
                key=lambda path: path.stat().st_mtime,
            )
            for path in kept[:-_MOST_REPORTS]:
                path.unlink(missing_ok=True)


def _event(line: bytes) -> dict[str, Any]:
    """What a line says; nothing where it says nothing that can be shown: those after it keep their numbers."""
    with contextlib.suppress(ValueError):
        found = parsed(line)
        if isinstance(found, dict) and isinstance(found.get("said", ""), str):
            return found
    return {}
