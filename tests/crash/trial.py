"""One command, killed and failed at each of its operations on files, and repeated each time."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Literal

import torch

from tests.crash.commands import COMMANDS, Command, content
from tests.crash.disk import Disk, Tree, make, tree_of
from tests.crash.system_calls import ERRORS, KILL, Ended, Operation, go_on, watched

Kind = Literal["kill", "power loss", "ENOSPC", "EIO"]
KINDS: tuple[Kind, ...] = ("kill", "power loss", "ENOSPC", "EIO")
_NEEDS_SPACE = {"open", "write", "mkdir", "rename", "truncate", "flush"}
_REMEDIES = ("free some space", "look at the disk")


@dataclass(frozen=True)
class Try:
    """Something that happens to a command."""

    kind: Kind
    number: int
    """The operation before which it happens; as many as there are: after the last one."""
    tree: Tree | None = None
    """power loss: what is left."""
    how: str = ""


class Trial:
    """A command in a folder of its own, with what it does when nothing disturbs it."""

    def __init__(self, command: Command, place: Path) -> None:
        self.command, self.root = command, place / "root"
        self.root.mkdir(parents=True)
        os.environ["SCAIL_CACHE"] = str(place / "cache")
        with contextlib.chdir(self.root), contextlib.redirect_stdout(io.StringIO()):
            # Here, not in a new process: what is imported and measured once is there for all of them.
            _carried_out(command.prepare)
            self.before = tree_of(self.root)
            self._meaning_before = command.meaning()
            _carried_out(command.work)
        make(self.before, self.root)
        ended = watched(self.root, command.work, go_on)
        assert ended.code == 0, ended.said
        self.operations = ended.operations
        self.after = tree_of(self.root)
        self._content = content(self.after)
        with contextlib.chdir(self.root):
            self._meaning_after = command.meaning()

    @cached_property
    def changing(self) -> list[int]:
        """The operations that change what a process sees, or what is on the disk for certain."""
        disk = self._disk()
        return [n for n, operation in enumerate(self.operations) if disk.apply(operation)]

    def _disk(self) -> Disk:
        make(self.before, self.root)
        return Disk(self.root)

    def tries(self, kind: Kind) -> list[Try]:
        """All that can happen of this kind."""
        if kind == "power loss":
            return [*self._power_losses()]
        if kind == "kill":
            return [Try(kind, n) for n in self.changing]
        space = [n for n in self.changing if self.operations[n].kind in _NEEDS_SPACE]
        return [Try(kind, n) for n in (space if kind == "ENOSPC" else range(len(self.operations)))]

    def _power_losses(self) -> Iterator[Try]:
        """Each state of the disk once; and all of those after the command has ended."""
        disk, known = self._disk(), set[int]()
        for n in range(len(self.operations) + 1):
            for how, tree in disk.after_power_loss():
                same = hash(frozenset(tree.items()))
                if same not in known or n == len(self.operations):
                    known.add(same)
                    yield Try("power loss", n, tree, how)
            if n < len(self.operations):
                disk.apply(self.operations[n])

    def fails(self, one: Try) -> str | None:
        """What is wrong after this; None: all is as it should be."""
        if one.kind == "power loss":
            assert one.tree is not None
            make(one.tree, self.root)
            over = one.number == len(self.operations) and self.command.lasts
            return self._repeated(one, over)
        make(self.before, self.root)
        ended = watched(self.root, self.command.work, partial(_happens, one))
        if one.kind == "kill":
            return self._repeated(one) if ended.code < 0 else self._told(one, f"was not killed: {ended.said}")
        if ended.code == 0:
            return self._repeated(one, over=True)
        return self._unclear(one, ended) or self._repeated(one)

    def _unclear(self, one: Try, ended: Ended) -> str | None:
        """What is wrong with what was said of an error."""
        said = ended.said
        what = os.strerror(ERRORS[one.kind])
        last = said.strip().rpartition("\n")[2]
        if ended.code != 2 or "Traceback" in said or what not in last:
            return self._told(one, f"ended with {ended.code}: {said[-1500:]}")
        if not any(remedy in last for remedy in _REMEDIES) or not self._names_a_file(ended, one, last):
            return self._told(one, f"does not say which file, or what to do: {last}")
        return None

    def _names_a_file(self, ended: Ended, one: Try, said: str) -> bool:
        # What is said of a lesson goes by the clock, so operations are not the same in every try.
        path = Path((ended.failed or [self._at(one)])[0].path)
        inside = (path, *path.parents) if path != Path() else (Path(name) for name in self.after)
        return any(str(part) in said for part in inside if part != Path())

    def _at(self, one: Try) -> Operation:
        return self.operations[min(one.number, len(self.operations) - 1)]

    def _repeated(self, one: Try, over: bool = False) -> str | None:
        """Look at what is left, then give the command again. `over`: it had ended well before."""
        ended = watched(self.root, partial(self._judge, over))
        return self._told(one, ended.said) if ended.code else None

    def _judge(self, over: bool) -> None:
        """In a process of its own."""
        found = self.command.meaning()
        if over:
            assert found == self._meaning_after, "the command had ended, and what it did is not there"
        assert found in (self._meaning_before, self._meaning_after), "neither what was before nor what is after"
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = _carried_out(self.command.work)
        done = found == self._meaning_after and self.command.done in said.getvalue()
        assert not code or done, f"the same command again ends with {code}: {said.getvalue()}"
        again = self.command.meaning()
        assert again == self._meaning_after, (
            f"repeated, it gives something else: {_differing(again, self._meaning_after)}"
        )
        now = content(tree_of(Path()))
        assert now == self._content, f"repeated, these files are different: {_differing(now, self._content)}"

    def _told(self, one: Try, what: str) -> str:
        where = "after the last operation"
        if one.number < len(self.operations):
            operation = self.operations[one.number]
            where = f"before operation {one.number}, {operation.kind} {operation.path} {operation.to}".rstrip()
        how = f" ({one.how})" if one.how else ""
        return f"{self.command.name}: {one.kind} {where}{how}: {what.strip()[-2000:]}"


def _differing(now: object, expected: object) -> object:
    """The files that differ."""
    if not (isinstance(now, dict) and isinstance(expected, dict)):
        return now
    return sorted(path for path in now.keys() | expected.keys() if now.get(path) != expected.get(path))


def _happens(one: Try, number: int, operation: Operation) -> int:
    if number != one.number:
        return 0
    return KILL if one.kind == "kill" else ERRORS[one.kind]


def _carried_out(work: object) -> int:
    """Do it here; gives the exit code."""
    assert callable(work)
    try:
        work()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@dataclass
class Count:
    """What came of the tries of one kind of a command."""

    command: str
    operations: int
    kind: Kind
    planned: int
    tries: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, told: str | None) -> None:
        """One more try, and what was wrong after it."""
        self.tries += 1
        self.failures += [] if told is None else [told]


def count(
    number: int,
    kinds: Sequence[Kind] = KINDS,
    most: int | None = None,
    jobs: int = 1,
    say: Callable[[list[Count]], None] = lambda counts: None,
) -> list[Count]:
    """All tries of these kinds of a command; or at most so many of each, evenly spread. `say` hears how it goes."""
    command = COMMANDS[number]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="scail-crash-", dir=tempfile.tempdir or quick_place()) as place:
        trial = Trial(command, Path(place))
        tries = {kind: spread(trial.tries(kind), most) for kind in kinds}
        counts = {kind: Count(command.name, len(trial.operations), kind, len(of)) for kind, of in tries.items()}
        say([*counts.values()])
        for one, told in _all_of(trial, [one for of in tries.values() for one in of], jobs):
            counts[one.kind].add(told)
            say([*counts.values()])
        return [*counts.values()]


def _all_of(trial: Trial, tries: list[Try], jobs: int) -> Iterator[tuple[Try, str | None]]:
    """Each of these once, and what was wrong after it, from so many processes at a time."""
    if jobs == 1:
        yield from ((one, trial.fails(one)) for one in tries)
        return
    forked, left = get_context("fork"), dict[Connection, list[Try]]()
    for n in range(jobs):
        receive, send = forked.Pipe(duplex=False)
        process = forked.Process(target=_part, args=(trial, n, tries[n::jobs], send), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons: threads do not come along
            process.start()
        send.close()
        left[receive] = tries[n::jobs]
    while left:
        for ready in wait([*left]):
            assert isinstance(ready, Connection)
            try:
                told = ready.recv()
            except EOFError:
                yield from ((one, "its process has ended before it could be tried") for one in left.pop(ready))
            else:
                yield left[ready].pop(0), told


def _part(trial: Trial, number: int, tries: list[Try], answer: Connection) -> None:
    """In a process of its own, with a folder and a cache of its own."""
    place = trial.root.parent
    trial.root = place / f"part-{number}" / trial.root.name
    if (place / "cache").exists():
        shutil.copytree(place / "cache", trial.root.parent / "cache")
    os.environ["SCAIL_CACHE"] = str(trial.root.parent / "cache")
    for one in tries:
        answer.send(trial.fails(one))


def count_and_tell(
    number: int, kinds: Sequence[Kind], most: int | None, jobs: int, place: str, answer: Connection
) -> None:
    """The same, as a process of its own, which can be killed with all that it has begun; below this folder."""
    os.setsid()
    tempfile.tempdir = place
    count(number, kinds, most, jobs, answer.send)


def spread(tries: list[Try], most: int | None) -> list[Try]:
    """At most so many of these, evenly spread."""
    if most is None or len(tries) <= most:
        return tries
    return [tries[(2 * i + 1) * len(tries) // (2 * most)] for i in range(most)]


def quick_place() -> str | None:
    """Files in memory are flushed at once: what is flushed is watched, not needed."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
