"""A content-addressed store: tensors and facts under a key, written atomically, checked when read, never pickled.

Layout: `store.json`, `states/<key>/{tensors.safetensors,entry.json}`, `unfinished/<key>.<stage>.safetensors`
(checkpoints of trainings that were interrupted) and `locks/<key>.lock`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from scail.storage.atomic import aside, write_bytes
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import (
    FORMAT,
    RECORD,
    TENSORS,
    DamagedEntry,
    Entry,
    StoreError,
    check_format,
    clear_errors,
    from_files,
    record_in,
    to_files,
)  # fmt: skip
from scail.storage.holdings import HOW, LOCKS, MARK, STATES, UNFINISHED, Holdings, delete
from scail.storage.lock import claim, locked
from scail.storage.reading import MIB, MOST_RECORD, read_bounded
from scail.storage.tensor_head import read_tensor_file

_DEFAULT_LIMIT = "50GB"
_FORMAT_KEY = "scail store, format"
_WRITTEN_AGAIN = "remove this file: the next command writes it again"


def default_store_dir() -> Path | str:
    """`SCAIL_STORE`, which may be a URL, or `store` in scail's cache directory."""
    from scail.storage.cache import cache_dir

    return os.environ.get("SCAIL_STORE") or cache_dir() / "store"


def parse_size(text: str) -> int:
    """Bytes from a size as people write it.

    >>> parse_size("1.5GB"), parse_size("200 MB"), parse_size("12")
    (1500000000, 200000000, 12)
    """
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    number = text.strip().rstrip("kKmMgGtTbB")
    try:
        size = float(number) * units[text.strip()[len(number) :].strip().upper()]
    except (ValueError, KeyError):
        raise ValueError(f"size {text!r}: expected a number with KB, MB, GB or TB, as 20GB") from None
    if not 0 <= size < float("inf"):
        raise ValueError(f"size {text!r}: expected 0 or more")
    return int(size)


def stored_keys(root: Path) -> set[str]:
    """The keys of a store, from outside: nothing is made where there is none."""
    return {one.key for one in Holdings(root).held() if one.kind == "state"}


class Store(Holdings):
    """States by key, in a directory that is kept below a size limit by forgetting what was not used for longest."""

    def __init__(self, root: Path, create: bool = True) -> None:
        """The store at `root`; without `create` only its name, for a process that leaves it to another."""
        super().__init__(root)
        self._locked = set[str]()
        """Keys whose locks this object holds."""
        if not create:
            return
        try:
            self.limit = parse_size(os.environ.get("SCAIL_STORE_LIMIT") or _DEFAULT_LIMIT)
        except ValueError as error:
            raise StoreError(f"SCAIL_STORE_LIMIT: {error}") from None
        with clear_errors(self.root, HOW):
            self._claim()

    def _claim(self) -> None:
        """Make it where there is none. Of one that is there nothing is written: it may be read-only."""
        mark, foreign = self.root / MARK, "holds files that are not a scail store ({name}); give a new directory"
        claim(self.root, str(self.root), {MARK}, foreign, own=_is_own, error=StoreError)
        if not mark.exists():
            for name in (STATES, UNFINISHED, LOCKS):
                self._folder(name)
            write_bytes(mark, json.dumps({_FORMAT_KEY: FORMAT}).encode())
        try:
            data = read_bounded(mark, MIB)
        except ValueError as error:
            raise StoreError(f"{error}; {_WRITTEN_AGAIN}") from None
        try:
            check_format(record_in(data, str(mark)).get(_FORMAT_KEY), str(mark))
        except DamagedEntry as error:
            raise StoreError(f"{error}; {_WRITTEN_AGAIN}") from error

    @property
    def place(self) -> str:
        """Where it is: what `open_store` finds it by, from whatever directory."""
        return str(self.root.resolve())

    def load(self, key: str, use: bool = True) -> Entry | None:
        """The entry, everything in it checked; None where there is none. Raises `DamagedEntry`.

        With `use`, this counts as its last use.
        """
        folder = self.root / STATES / key
        while (before := _identity(folder)) is not None:
            try:
                entry = from_files(_read(folder), key, str(folder))
            except DamagedEntry:
                if _identity(folder) == before:
                    raise
                continue  # taken away meanwhile, or replaced
            if use:
                with contextlib.suppress(OSError):  # a read-only store can be read
                    os.utime(folder)
            return entry
        return None

    def reread(self, key: str) -> Entry | None:
        """The entry as it lies in its place, for a check: it does not count as a use. Raises `DamagedEntry`."""
        return self.load(key, use=False)

    def keys(self) -> set[str]:
        """The keys of all states."""
        return stored_keys(self.root)

    def find(self, key: str, damaged: Callable[[str], None]) -> Entry | None:
        """The entry, or None where there is none or it is damaged; then `damaged` is told what is wrong with it."""
        try:
            return self.load(key)
        except DamagedEntry as damage:
            damaged(str(damage))
            return None

    def find_or_make(
        self, key: str, make: Callable[[], Entry], damaged: Callable[[str], None], waiting: Callable[[], None]
    ) -> Entry:
        """The entry. Where there is none, one process makes it, and others wait for that, as for `lock`."""
        # To find it nothing is written, not even a lock: the store may be read-only.
        entry = self.find(key, lambda damage: None)
        if entry is None:
            with self.lock(key, waiting):
                entry = self.find(key, damaged)
                if entry is None:
                    entry = make()
                    self.save(entry)
        return entry

    def save(self, entry: Entry) -> None:
        """Write aside, flush to the disk, rename: another process sees all of the entry or nothing."""
        self._write(entry.key, to_files(entry))

    def _write(self, key: str, files: Mapping[str, bytes]) -> None:
        with clear_errors(self.root, HOW), contextlib.nullcontext() if key in self._locked else self.lock(key):
            self._put(key, files)
        self.shrink(self.limit, keep=key)

    def _put(self, key: str, files: Mapping[str, bytes]) -> None:
        """These files in place of what is there under this key. Hold its lock."""
        states = self._folder(STATES)
        for left in states.glob(f".scail-{key}.*"):  # of a process that died: the lock is ours
            delete(left)
        with aside(states / key) as begun:
            begun.mkdir()
            for name, data in files.items():
                (begun / name).write_bytes(data)
            # One is there only if it was damaged, or another process has just written it: with the same content.
            self.remove(key)

    @contextlib.contextmanager
    def lock(self, key: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Held by one process at a time; the system releases it when its holder dies.

        `waiting` is called twice a second while another process holds it, and may raise.
        """
        with contextlib.ExitStack() as held:
            with clear_errors(self.root, HOW):
                held.enter_context(locked(self._lock_of(key), waiting=waiting))
            self._locked.add(key)
            held.callback(self._locked.discard, key)
            yield

    def checkpoint(self, key: str) -> Checkpoint:
        """Where the unfinished training of this state is kept."""
        return Checkpoint(self.root / UNFINISHED / f"{key}.safetensors")


def _identity(folder: Path) -> tuple[int, int] | None:
    """What tells this folder from one that takes its place; None: there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if folder.is_dir() else None


def _read(folder: Path) -> dict[str, bytes]:
    try:
        tensors = read_tensor_file(folder / TENSORS)
        return {TENSORS: tensors, RECORD: read_bounded(folder / RECORD, MOST_RECORD)}
    except ValueError as error:
        named = str(error).startswith(str(folder))
        raise DamagedEntry(str(error) if named else f"{folder / TENSORS}: {error}") from error
    except OSError as error:
        raise DamagedEntry(f"{error.filename}: {error.strerror or error}") from error


def _is_own(name: str) -> bool:
    """Whether this may be in a store that is just being made; version 0.1 began `store.json` as `.store.json.*`."""
    return name in (STATES, UNFINISHED, LOCKS) or name.startswith(f".{MARK}")
