"""A store behind a URL (s3://, gs://, memory://, ...): read through a local cache, written by whole-file upload.

There are no locks between machines. None is needed: two that train the same state upload the same bits, and an entry
is there when its `entry.json` is, which is uploaded last. Checkpoints of unfinished trainings stay on their machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scail.storage.atomic import aside
from scail.storage.cache import cache_dir
from scail.storage.entry import Entry, StoreError
from scail.storage.store import DamagedEntry, Store, default_store_dir, stored_keys

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_FILES = ("tensors.safetensors", "entry.json")  # in the order in which they are uploaded


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
        try:
            if (entry := super().load(key, use)) is not None:
                return entry
        except DamagedEntry:
            self.remove(key)
        return super().load(key, use) if self._fetch(key) else None

    def save(self, key: str, entry: Entry) -> None:
        """Into the cache, and from there to the URL."""
        super().save(key, entry)
        with _clear_errors(self.url):
            for name in _FILES:
                self._upload(self.root / "states" / key / name, f"{self._remote}/states/{key}/{name}")

    def _fetch(self, key: str) -> bool:
        """Copy an entry into the cache; False where there is none."""
        remote = f"{self._remote}/states/{key}"
        with _clear_errors(self.url):
            if not self._files.exists(f"{remote}/entry.json"):
                return False
            with aside(self.root / "states" / key) as begun:
                begun.mkdir()
                for name in _FILES:
                    (begun / name).write_bytes(self._files.cat_file(f"{remote}/{name}"))
        self.shrink(self.limit, keep=key)
        return True

    def _upload(self, local: Path, remote: str) -> None:
        """The whole file, in one step for readers."""
        self._files.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
        with self._files.transaction, local.open("rb") as source, self._files.open(remote, "wb") as target:
            shutil.copyfileobj(source, target, 2**20)


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
