"""A store behind a URL (s3://, gs://, memory://, ...): read through a local cache, written by whole-file upload.

There are no locks between machines. None is needed: two that train the same state upload the same bits, and an entry
is there when its `entry.json` is, which is uploaded last. Checkpoints of unfinished trainings stay on their machine.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from scail.storage.cache import cache_dir
from scail.storage.entry import RECORD, TENSORS, DamagedEntry, Entry, StoreError, from_files
from scail.storage.lock import locked
from scail.storage.store import Store, default_store_dir, stored_keys

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def is_url(place: str | Path) -> bool:
    """Whether this is the URL of an object store, and not a directory."""
    return "://" in str(place)


def open_store(place: str | Path | None = None, create: bool = True) -> Store:
    """The store at a directory or behind a URL; None: the user's own."""
    place = place or default_store_dir()
    return RemoteStore(str(place), create) if is_url(place) else Store(Path(place), create)


def keys_in(place: str | Path | None = None) -> set[str]:
    """The keys of a store, from outside: nothing is made where there is none."""
    place = place or default_store_dir()
    if not is_url(place):
        return stored_keys(Path(place))
    with _clear_errors(str(place)):
        files, root = _file_system(str(place))
        return {path.split("/")[-2] for path in files.glob(f"{root}/states/*/entry.json")}


class RemoteStore(Store):
    """A store whose entries lie behind a URL; this machine has copies of those that it has used."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.url = url.rstrip("/")
        super().__init__(cache_dir() / "stores" / hashlib.sha256(self.url.encode()).hexdigest()[:16], create)
        if create:
            with _clear_errors(self.url):
                self._files, self._remote = _file_system(self.url)
                self._files.exists(f"{self._remote}/states")  # a place that cannot be reached is an error now

    @property
    def place(self) -> str:
        """Its URL."""
        return self.url

    def load(self, key: str, use: bool = True) -> Entry | None:
        """From the cache, or fetched into it; what is damaged in the cache is fetched again."""
        with contextlib.suppress(DamagedEntry):
            if (entry := super().load(key, use)) is not None:
                return entry
        if (files := self._fetched(key)) is None:
            return None
        entry = from_files(files, key, f"{self.url}/states/{key}")
        self._copy(key, files)
        return entry

    def reread(self, key: str) -> Entry | None:
        """The entry as it lies behind the URL, for a check: no copy is used or made. Raises `DamagedEntry`."""
        files = self._fetched(key)
        return None if files is None else from_files(files, key, f"{self.url}/states/{key}")

    def keys(self) -> set[str]:
        """The keys of all states behind the URL."""
        return keys_in(self.url)

    def _write(self, key: str, files: Mapping[str, bytes]) -> None:
        """Into the cache, and from there to the URL; the record is the last file."""
        super()._write(key, files)
        with _clear_errors(self.url):
            for name, data in files.items():
                self._upload(data, f"{self._remote}/states/{key}/{name}")

    def _fetched(self, key: str) -> dict[str, bytes] | None:
        """The files of an entry; None where there is none."""
        remote = f"{self._remote}/states/{key}"
        with _clear_errors(self.url):
            if not self._files.exists(f"{remote}/{RECORD}"):
                return None
            try:
                return {name: self._files.cat_file(f"{remote}/{name}") for name in (TENSORS, RECORD)}
            except FileNotFoundError as error:
                raise DamagedEntry(f"{self.url}/states/{key}: {error}: is missing") from error

    def _copy(self, key: str, files: Mapping[str, bytes]) -> None:
        """Into the cache, if it can be written, and nobody else is at it: it costs time only."""
        with contextlib.suppress(OSError, StoreError):
            taken = StoreError(f"{key} is being trained")
            with contextlib.nullcontext() if key in self._locked else locked(self._lock_of(key), taken):
                self._put(key, files)
            self.shrink(self.limit, keep=key)

    def _upload(self, data: bytes, remote: str) -> None:
        """The whole file, in one step for readers."""
        self._files.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
        with self._files.transaction, self._files.open(remote, "wb") as target:
            target.write(data)


def _file_system(url: str) -> tuple[AbstractFileSystem, str]:
    from fsspec.core import url_to_fs

    try:
        files, root = url_to_fs(url)
    except ImportError as error:
        raise StoreError(f"store {url}: {error}") from error
    except ValueError as error:
        raise StoreError(f"store {url}: {error}; give a directory, or a URL that fsspec knows, as s3://...") from error
    return files, str(root).rstrip("/")


@contextlib.contextmanager
def _clear_errors(url: str) -> Iterator[None]:
    """Object stores fail in many ways: say which place, and what to do."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # each kind of store has errors of its own
        raise StoreError(
            f"store {url}: {error}; nothing in it was damaged. Look at the connection and the rights, then give the "
            "same command again"
        ) from error
