"""What a store's directory holds, finished or not, and how room is made in it.

Locks tell who is alive: whoever trains or writes a state holds the lock of its key. What is unfinished and whose lock
is free was left by a process that died.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scail.storage.atomic import ASIDE, LEFT, aside_name
from scail.storage.entry import RECORD, clear_errors, record_in
from scail.storage.flushing import flush, make_folder
from scail.storage.lock import locked
from scail.storage.reading import MOST_RECORD, read_bounded

HOW = " with --store"
"""How another place is chosen, for errors."""
MARK = "store.json"
STATES, UNFINISHED, LOCKS = "states", "unfinished", "locks"
Kind = Literal["state", "training", "half", "stray"]
_STATE = re.compile(r"[0-9a-f]{32}")
_TRAINING = re.compile(r"([0-9a-f]{32})\.(.+\.)?safetensors")
_HALF = re.compile(r"\.(?:scail-)?([0-9a-f]{32})\..+", re.DOTALL)  # version 0.1 wrote to .KEY.NUMBER


@dataclass(frozen=True)
class Holding:
    """A file or folder in a store's directory, as seen from outside."""

    path: Path
    kind: Kind
    """A state; the checkpoint of a training; half of a write or a removal; or a stray, which scail did not write."""
    key: str
    """The key that it belongs to; empty where there is none."""
    size: int
    """Bytes on disk."""
    used: float
    """When it was last read or written."""


@dataclass(frozen=True)
class StoredEntry:
    """A state with what its record says; nothing of it was checked."""

    key: str
    facts: dict[str, Any]
    size: int
    created: float
    used: float

    @property
    def previous(self) -> str:
        """The key of the state that it builds on; empty for state 0."""
        return str(self.facts.get("made_from", {}).get("previous", ""))


class _Alive(Exception):
    """The process that is at it lives."""


class Holdings:
    """A store's directory, seen from outside."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def held(self) -> list[Holding]:
        """Everything in it but locks and its mark."""
        marks = [path for path in _inside(self.root) if _is_half_of_mark(path.name)]
        others = [path for name in (STATES, UNFINISHED) for path in _inside(self.root / name)]
        looked = [*(_look(path, "half", "") for path in marks), *(_look(path, *_kind_of(path)) for path in others)]
        return [one for one in looked if one is not None]

    def listing(self) -> list[StoredEntry]:
        """All states, those used last first. Damaged ones have no facts."""
        states = [one for one in self.held() if one.kind == "state"]
        return [_with_facts(one) for one in sorted(states, key=lambda one: -one.used)]

    def remove(self, key: str) -> None:
        """Take a state away, in one step for other processes."""
        folder = self.root / STATES / key
        away = aside_name(folder)
        with clear_errors(self.root, HOW), contextlib.suppress(FileNotFoundError):
            folder.rename(away)
            flush(folder.parent)  # else a power failure could bring it back without its files
            delete(away)

    def shrink(self, limit: int, keep: str = "") -> list[Holding]:
        """Remove what is of no use, then what was not used for longest, until at most `limit` bytes are left.

        What a process that lives is at counts, and stays. Gives what was removed.
        """
        gone = self._discarded(self._useless())
        left = [one for one in self.held() if one.kind != "stray"]
        total = sum(one.size for one in left)
        for one in sorted(left, key=lambda one: one.used):
            if total <= limit:
                break
            if one.key != keep and (removed := self._discarded([one])):
                gone += removed
                total -= one.size
        return gone

    def sweep(self, unfinished_after: float) -> list[Holding]:
        """Remove what nothing will use, and trainings that nobody is at and that were untouched for so many seconds."""
        now = time.time()
        old = [one for one in self.held() if one.kind == "training" and now - one.used > unfinished_after]
        return self._discarded([*dict.fromkeys((*self._useless(), *old))])

    def _useless(self) -> list[Holding]:
        """Halves, and checkpoints of trainings that are finished."""
        items = self.held()
        finished = {one.key for one in items if one.kind == "state"}
        return [one for one in items if one.kind == "half" or (one.kind == "training" and one.key in finished)]

    def _discarded(self, items: list[Holding]) -> list[Holding]:
        """Those of these that could be removed: not what a process that lives is at."""
        return [one for one in items if self.discard(one)]

    def discard(self, one: Holding) -> bool:
        """Remove it, unless a process that lives is at it; whether it was removed."""
        if one.kind == "state":
            self.remove(one.key)
        elif not one.key and time.time() - one.used < LEFT:
            return False
        else:
            with clear_errors(self.root, HOW), contextlib.ExitStack() as held:
                try:
                    held.enter_context(
                        locked(self._lock_of(one.key), _Alive()) if one.key else contextlib.nullcontext()
                    )
                except _Alive:
                    return False
                delete(one.path)
                flush(one.path.parent)
        return True

    def _lock_of(self, key: str) -> Path:
        return self._folder(LOCKS) / f"{key}.lock"

    def _folder(self, name: str) -> Path:
        """A folder of the store; copies of a store may lack those that are empty."""
        folder = self.root / name
        make_folder(folder)
        return folder


def _kind_of(path: Path) -> tuple[Kind, str]:
    if half := _HALF.fullmatch(path.name):
        return "half", half[1]
    if ASIDE.fullmatch(path.name):
        return "half", ""
    if path.parent.name == STATES:
        return ("state", path.name) if _STATE.fullmatch(path.name) and path.is_dir() else ("stray", "")
    training = _TRAINING.fullmatch(path.name)
    return ("training", training[1]) if training else ("stray", "")


def _is_half_of_mark(name: str) -> bool:
    """Whether somebody is just making the store; version 0.1 began `store.json` as `.store.json.*`."""
    return name.startswith(f".{MARK}.") or bool(ASIDE.fullmatch(name))


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _look(path: Path, kind: Kind, key: str) -> Holding | None:
    """None: it was taken away meanwhile."""
    try:
        status = path.stat()
        parts = [part.stat() for part in path.iterdir()] if stat.S_ISDIR(status.st_mode) else [status]
    except FileNotFoundError:
        return None
    # A state counts as used when its folder is touched; a half when anything was written to it.
    moments = [status.st_mtime, *(part.st_mtime for part in parts if kind == "half")]
    return Holding(path, kind, key, sum(part.st_size for part in parts), max(moments))


def _with_facts(one: Holding) -> StoredEntry:
    path = one.path / RECORD
    try:
        record = record_in(read_bounded(path, MOST_RECORD), str(path))
    except (OSError, ValueError):
        record = {}
    facts, created = record.get("facts"), record.get("created")
    facts = facts if isinstance(facts, dict) and isinstance(facts.get("made_from", {}), dict) else {}
    return StoredEntry(one.key, facts, one.size, created if isinstance(created, float) else one.used, one.used)


def delete(path: Path) -> None:
    """A file, a link or a folder; perhaps another process is doing so, too."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
