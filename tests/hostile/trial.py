"""One reader and many changed files, in a process of its own with bounds on time and memory."""

from __future__ import annotations

import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from tests.forked import CONTEXT
from tests.hostile.mutation import mutated, mutated_json

SECONDS = 10.0
"""Of a processor, for one file."""
WAITED = 120.0
"""Seconds by the clock, for one file: nothing that is read is waited for."""
MEMORY = 1536 * 2**20
"""Bytes of address space, beyond what the process has when it begins."""


@dataclass(frozen=True)
class Reader:
    """Something that reads files: how a sound one is made, and how it is read."""

    name: str
    make: Callable[[Path], list[Path]]
    """Writes sound files into a folder; gives those to be changed."""
    read: Callable[[Path], Any]
    """Reads the folder; gives the value, something that can be compared."""
    sealed: bool = False
    """Whether what was changed is never read: there is a checksum."""
    json: bool = False
    """Whether values are changed rather than bytes, most of the time."""
    after: Callable[[Path], None] = lambda path: None
    """What is done to a changed file, as to sign it anew."""
    whole: bool = True
    """Whether every error names the folder or a file."""


@dataclass
class Tried:
    """What came of it."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    memory: int = 0
    """Bytes, at most."""


class TooLong(BaseException):
    """A reader has taken longer than it may."""


def try_one(reader: Reader, folder: Path, files: list[Path], sound: Any, seed: int, tried: Tried) -> None:
    """Change one file, read, and put it back."""
    draw = Random(f"{reader.name} {seed}")
    path = draw.choice(files)
    before = path.read_bytes()
    as_json = reader.json and path.suffix in (".json", ".jsonl") and draw.random() < 0.8
    changed = mutated_json(before, draw) if as_json else mutated(before, draw)
    tried.inputs += 1
    path.write_bytes(changed)
    begun = time.process_time()
    _alarms(SECONDS, WAITED)
    try:
        reader.after(path)
        found = reader.read(folder)
        if reader.sealed and changed != before and found not in (sound, None):
            raise AssertionError("a changed file was read as if it were sound, with other content")
        tried.read += 1
    except ValueError as error:
        tried.refused += 1
        if trouble := _unclear(str(error), folder, reader):
            tried.failures.append(f"{reader.name}, seed {seed}, {path.name}: {trouble}: {str(error)[:300]!r}")
    except (Exception, TooLong) as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [f"{Path(one.filename).name}:{one.lineno}" for one in where if "/scail/" in one.filename][-2:]
        said = f"{type(error).__name__}: {str(error)[:200]}"
        tried.failures.append(f"{reader.name}, seed {seed}, {path.name}: {said} ({', '.join(ours)})")
    finally:
        _alarms(0, 0)
        path.write_bytes(before)
    tried.slowest = max(tried.slowest, time.process_time() - begun)


def _alarms(busy: float, waited: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, busy)
    signal.setitimer(signal.ITIMER_REAL, waited)


def _unclear(text: str, folder: Path, reader: Reader) -> str | None:
    """What is wrong with an error, if anything is."""
    if "\n" in text.replace(str(folder), ""):
        return "not one line"
    if reader.whole and str(folder) not in text:
        return "does not name the file"
    return "empty" if not text else None


def _run(name: str, folder: Path, seeds: range, limit: float, answer: Connection) -> None:
    from tests.hostile.readers import READERS

    reader = READERS[name]

    def late(*_: object) -> None:
        raise TooLong(f"more than {SECONDS:.0f} s of a processor, or than {WAITED:.0f} s in all")

    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, late)
    warnings.simplefilter("ignore")
    files = sorted(reader.make(folder))
    sound = reader.read(folder)  # what is imported late is there, and the sound one is read
    status = Path("/proc/self/statm").read_text().split()
    most = int(status[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    before, tried, until = _peak(), Tried(), time.monotonic() + limit
    for seed in seeds:
        answer.send(seed)  # so that it is known which one ended the process
        try_one(reader, folder, files, sound, seed, tried)
        if time.monotonic() > until:
            break
    tried.memory = _peak() - before
    answer.send(tried)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def try_many(reader: Reader, place: Path, seeds: range, limit: float = float("inf")) -> Tried:
    """Try this reader with these seeds, for so many seconds at most; what ends the process is a failure, too."""
    found, begin, part = Tried(), seeds.start, 0
    until = time.monotonic() + limit
    while begin < seeds.stop and time.monotonic() < until:
        folder = place / f"{reader.name.replace(' ', '-')}-{part}"
        folder.mkdir(parents=True)
        receive, send = CONTEXT.Pipe(duplex=False)
        given = (reader.name, folder, range(begin, seeds.stop), until - time.monotonic(), send)
        process = CONTEXT.Process(target=_run, args=given)
        process.start()
        send.close()
        seed: int | None = None
        tried: Tried | None = None
        try:
            while tried is None:
                message = receive.recv()
                seed, tried = (message, None) if isinstance(message, int) else (seed, message)
        except EOFError:
            pass
        process.join()
        if tried is None:
            if seed is None:
                raise AssertionError(f"{reader.name}: ended before it began (exit code {process.exitcode})")
            tried = Tried(seed - begin + 1, failures=[f"{reader.name}, seed {seed}: ended with {process.exitcode}"])
            begin = seed + 1
        else:
            begin = seeds.stop
        part += 1
        found.inputs, found.read = found.inputs + tried.inputs, found.read + tried.read
        found.refused, found.failures = found.refused + tried.refused, found.failures + tried.failures
        found.slowest, found.memory = max(found.slowest, tried.slowest), max(found.memory, tried.memory)
    return found
