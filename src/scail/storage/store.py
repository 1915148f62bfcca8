"""A content-addressed store: tensors and facts under a key, written atomically, checked when read, never pickled.

Layout: `store.json`, `states/<key>/{tensors.safetensors,entry.json}`, `unfinished/<key>.safetensors` (checkpoints of
trainings that were interrupted) and `locks/<key>.lock`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scail.storage.atomic import aside, aside_name, flush, write_bytes
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry, StoreError, clear_errors
from scail.storage.lock import claim, locked

FORMAT = 1
_MARK = "store.json"
_FOLDERS = ("states", "unfinished", "locks")
_DEFAULT_LIMIT = "50GB"
_HOW = " with --store"


class DamagedEntry(StoreError):
    """A file of the store is not what was written."""


@dataclass(frozen=True)
class StoredEntry:
    """An entry as seen from outside."""

    key: str
    facts: dict[str, Any]
    size: int
    """Bytes on disk."""
    created: float
    used: float
    """When it was last read or written."""

    @property
    def previous(self) -> str:
        """The key of the state that it builds on; empty for state 0."""
        return str(self.facts.get("made_from", {}).get("previous", ""))


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of these facts: equal facts, equal key."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


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
    states = Path(root) / "states"
    return {folder.name for folder in states.glob("[!.]*")} if states.is_dir() else set()


class Store:
    """States by key, in a directory that is kept below a size limit by forgetting what was not used for longest."""

    def __init__(self, root: Path, create: bool = True) -> None:
        """The store at `root`; without `create` only its name, for a process that leaves it to another."""
        self.root = Path(root)
        if not create:
            return
        try:
            self.limit = parse_size(os.environ.get("SCAIL_STORE_LIMIT") or _DEFAULT_LIMIT)
        except ValueError as error:
            raise StoreError(f"SCAIL_STORE_LIMIT: {error}") from None
        with clear_errors(self.root, _HOW):
            mark, foreign = self.root / _MARK, "holds files that are not a scail store ({name}); give a new directory"
            claim(self.root, str(self.root), {_MARK}, foreign, own=_is_own, error=StoreError)
            for name in _FOLDERS:
                (self.root / name).mkdir(exist_ok=True)
            if not mark.exists():
                write_bytes(mark, json.dumps({"scail store, format": FORMAT}).encode())
            _check_format(mark, _read_json(mark).get("scail store, format"))

    @property
    def place(self) -> str:
        """Where it is: what `open_store` finds it by, from whatever directory."""
        return str(self.root.resolve())

    def load(self, key: str, use: bool = True) -> Entry | None:
        """The entry, checked against its checksum; None where there is none. Raises `DamagedEntry`.

        With `use`, this counts as its last use.
        """
        folder = self.root / "states" / key
        if not folder.is_dir():
            return None
        try:
            return self._read(folder, use)
        except DamagedEntry:
            if folder.is_dir():
                raise
            return None  # taken away meanwhile

    def _read(self, folder: Path, use: bool) -> Entry:
        from safetensors import SafetensorError
        from safetensors.torch import load

        record = _read_json(folder / "entry.json")
        _check_format(folder, record.get("format"))
        try:
            data = (folder / "tensors.safetensors").read_bytes()
            if hashlib.sha256(data).hexdigest() != record["tensors_sha256"]:
                raise DamagedEntry(f"{folder / 'tensors.safetensors'}: checksum does not match")
            if key_of(record["facts"]) != record["facts_sha256"]:
                raise DamagedEntry(f"{folder / 'entry.json'}: checksum does not match")
            entry = Entry(load(data), record["facts"])
        except (OSError, KeyError, TypeError, SafetensorError) as error:
            raise DamagedEntry(f"{folder}: {error!r}") from error
        if use:
            with contextlib.suppress(OSError):  # a read-only store can be read
                os.utime(folder)
        return entry

    def find(self, key: str, damaged: Callable[[str], None]) -> Entry | None:
        """The entry, or None where there is none or it is damaged; then `damaged` is told what is wrong with it."""
        try:
            return self.load(key)
        except DamagedEntry as damage:
            damaged(str(damage))
            return None

    def save(self, key: str, entry: Entry) -> None:
        """Write aside, flush to the disk, rename: another process sees all of the entry or nothing."""
        from safetensors.torch import save

        data = save({name: tensor.contiguous() for name, tensor in entry.tensors.items()})
        record = {
            "format": FORMAT,
            "tensors_sha256": hashlib.sha256(data).hexdigest(),
            "facts_sha256": key_of(entry.facts),
            "created": time.time(),
            "facts": entry.facts,
        }
        with clear_errors(self.root, _HOW):
            with aside(self.root / "states" / key) as begun:
                begun.mkdir()
                (begun / "tensors.safetensors").write_bytes(data)
                (begun / "entry.json").write_bytes(json.dumps(record, indent=1).encode())
                # One is there only if it was damaged, or another process has just written it: with the same content.
                self.remove(key)
            flush(self.root / "states")
        self.shrink(self.limit, keep=key)

    def remove(self, key: str) -> None:
        """Take an entry away, in one step for other processes."""
        folder = self.root / "states" / key
        away = aside_name(folder)
        with clear_errors(self.root, _HOW), contextlib.suppress(FileNotFoundError):
            folder.rename(away)
        shutil.rmtree(away, ignore_errors=True)

    def listing(self) -> list[StoredEntry]:
        """All entries, those used last first. Damaged ones have no facts."""
        found = []
        for folder in (self.root / "states").glob("[!.]*"):
            try:
                used = folder.stat().st_mtime
                size = sum(file.stat().st_size for file in folder.iterdir())
            except FileNotFoundError:
                continue  # taken away meanwhile
            try:
                record = _read_json(folder / "entry.json")
            except DamagedEntry:
                record = {}
            facts = record.get("facts")
            facts = facts if isinstance(facts, dict) and isinstance(facts.get("made_from", {}), dict) else {}
            created = record.get("created")
            found.append(StoredEntry(folder.name, facts, size, created if isinstance(created, float) else used, used))
        return sorted(found, key=lambda item: -item.used)

    def shrink(self, limit: int, keep: str = "") -> list[StoredEntry]:
        """Forget what was not used for longest until at most `limit` bytes are left; gives what was forgotten."""
        entries = self.listing()
        total, gone = sum(item.size for item in entries), list[StoredEntry]()
        for item in reversed(entries):
            if total <= limit:
                break
            if item.key != keep:
                self.remove(item.key)
                gone.append(item)
                total -= item.size
        return gone

    def sweep(self, unfinished_after: float) -> list[Path]:
        """Remove what nothing will use: halves of writes that died, and checkpoints untouched for so many seconds."""
        now, removed = time.time(), list[Path]()
        for path in (self.root / "states").glob(".*"):
            if now - path.stat().st_mtime > 3600:  # a write of an hour is a dead one
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
        for path in [*(self.root / "unfinished").iterdir()]:
            if now - path.stat().st_mtime > unfinished_after:
                path.unlink(missing_ok=True)
                removed.append(path)
        return removed

    @contextlib.contextmanager
    def lock(self, key: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Held by one process at a time; the system releases it when its holder dies.

        `waiting` is called twice a second while another process holds it, and may raise.
        """
        with contextlib.ExitStack() as held:
            with clear_errors(self.root, _HOW):
                held.enter_context(locked(self.root / "locks" / f"{key}.lock", waiting=waiting))
            yield

    def checkpoint(self, key: str) -> Checkpoint:
        """Where the unfinished training of this state is kept."""
        return Checkpoint(self.root / "unfinished" / f"{key}.safetensors")


def _check_format(place: Path, form: object) -> None:
    if not isinstance(form, int):
        raise DamagedEntry(f"{place}: has no format number")
    if form != FORMAT:
        raise StoreError(
            f"{place}: format {form!r}, this scail reads format {FORMAT}; "
            "use the scail that wrote it, or another --store"
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedEntry(f"{path}: {error}") from error
    if not isinstance(record, dict):
        raise DamagedEntry(f"{path}: not a record")
    return record


def _is_own(name: str) -> bool:
    """Whether this may be in a store that is just being made; version 0.1 began `store.json` as `.store.json.*`."""
    return name in _FOLDERS or name.startswith(f".{_MARK}")
