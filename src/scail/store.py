"""A content-addressed store: tensors and facts under a key, written atomically, checked when read, never pickled.

Layout: `<root>/states/<key>/{tensors.safetensors,entry.json}`, `<root>/unfinished/<key>.safetensors` (checkpoints of
trainings that were interrupted) and `<root>/locks/<key>.lock`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

FORMAT = 1


class StoreError(ValueError):
    """The store cannot be used: what is wrong with which file, and what to do."""


class DamagedEntry(StoreError):
    """A file of the store is not what was written."""


@dataclass(frozen=True)
class Entry:
    """What the store holds under a key."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of these facts: equal facts, equal key."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def default_store_dir() -> Path:
    """`SCAIL_STORE`, or `states` in scail's cache directory."""
    from scail.datasets.cache import cache_dir

    return Path(os.environ.get("SCAIL_STORE") or cache_dir() / "store")


class Store:
    """States by key, in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        with _clear_errors(self.root):
            for name in ("states", "unfinished", "locks"):
                (self.root / name).mkdir(parents=True, exist_ok=True)

    def load(self, key: str) -> Entry | None:
        """The entry, checked against its checksum; None where there is none. Raises `DamagedEntry`."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        folder = self.root / "states" / key
        if not folder.is_dir():
            return None
        try:
            record = json.loads((folder / "entry.json").read_text())
            form = record["format"]
            if form == FORMAT:
                data = (folder / "tensors.safetensors").read_bytes()
                if hashlib.sha256(data).hexdigest() != record["sha256"]:
                    raise DamagedEntry(f"{folder / 'tensors.safetensors'}: checksum does not match")
                tensors, facts = load(data), record["facts"]
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise DamagedEntry(f"{folder}: {error}") from error
        if form != FORMAT:
            raise StoreError(
                f"{folder}: format {form}, this scail reads format {FORMAT}; "
                "use the scail that wrote it, or another --store"
            )
        os.utime(folder)  # the time of last use
        return Entry(tensors, facts)

    def save(self, key: str, entry: Entry) -> None:
        """Write aside, flush to the disk, rename: another process sees all of the entry or nothing."""
        from safetensors.torch import save

        data = save({name: tensor.contiguous() for name, tensor in entry.tensors.items()})
        record = {"format": FORMAT, "key": key, "sha256": hashlib.sha256(data).hexdigest(), "facts": entry.facts}
        record["created"] = time.time()
        folder = self.root / "states" / key
        aside = self.root / "states" / f".{key}.{uuid.uuid4().hex}"
        with _clear_errors(self.root):
            try:
                aside.mkdir()
                _write_flushed(aside / "tensors.safetensors", data)
                _write_flushed(aside / "entry.json", json.dumps(record, indent=1).encode())
                if folder.exists():
                    shutil.rmtree(folder)  # only a damaged entry is ever written again
                aside.rename(folder)
                _flush_folder(folder.parent)
            finally:
                shutil.rmtree(aside, ignore_errors=True)

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Held by one process at a time; the system releases it when its holder dies."""
        from filelock import FileLock

        with _clear_errors(self.root):
            held = FileLock(self.root / "locks" / f"{key}.lock").acquire()
        with held:
            yield

    def checkpoint(self, key: str) -> Checkpoint:
        """Where the unfinished training of this state is kept."""
        return Checkpoint(self.root / "unfinished" / f"{key}.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """An unfinished training on disk: tensors and facts in one file, replaced atomically."""

    path: Path

    def load(self) -> Entry | None:
        """What was saved last; None where there is nothing, or nothing whole."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                record = json.loads((file.metadata() or {})["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, ValueError, KeyError, SafetensorError):
            return None
        return Entry(tensors, record) if record.pop("checksum", None) == _checksum(tensors) else None

    def save(self, entry: Entry) -> None:
        """Replace what was saved before."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in entry.tensors.items()}
        facts = json.dumps({**entry.facts, "checksum": _checksum(tensors)})
        aside = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        with _clear_errors(self.path.parent):
            try:
                _write_flushed(aside, save(tensors, {"facts": facts}))
                aside.replace(self.path)
            finally:
                aside.unlink(missing_ok=True)

    def remove(self) -> None:
        """The training is finished."""
        self.path.unlink(missing_ok=True)


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _write_flushed(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _clear_errors(place: Path) -> Iterator[None]:
    """Full disk, read-only directory: say which place, and what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write to {place}: {error.strerror or error}; nothing in it was damaged. "
            "Free some space or choose another place with --store"
        ) from error
