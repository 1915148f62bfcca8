"""Models behind a URL: s3://, gs://, file://, memory:// and whatever else fsspec knows."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scail.storage.reading import size_text, why
from scail.storage.shelf import ShelfError, without_secrets

_THREADS = 8  # files at a time


class UrlShelf:
    """A folder behind a URL. A file is written in one step where readers go by it."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self.place = without_secrets(url.rstrip("/"))
        with self._told():
            self._files, root = url_to_fs(url)
            self._root = str(root).rstrip("/")

    def names(self) -> frozenset[str]:
        """The files that are there now."""
        with self._told():
            self._files.invalidate_cache()
            try:
                found = self._files.find(self._root)
            except FileNotFoundError:
                return frozenset()
            begin = f"{self._root.strip('/')}/"
            return frozenset(str(path).lstrip("/").removeprefix(begin) for path in found)

    def read(self, name: str, most: int) -> bytes:
        """One of them, of at most so many bytes."""
        with self._told():
            size = int(self._files.info(f"{self._root}/{name}")["size"])
            if size > most:
                raise ShelfError(f"{self.place}/{name}: {size_text(size)}, expected at most {size_text(most)}")
            data: bytes = self._files.cat_file(f"{self._root}/{name}")
            return data

    def fetch(self, names: Sequence[str], to: Path) -> None:
        """These files, into a folder of this machine."""

        def get(name: str) -> None:
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            self._files.get_file(f"{self._root}/{name}", str(to / name))

        with self._told(), ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(get, names):
                pass

    def send(self, folder: Path, last: Sequence[str], gone: Collection[str]) -> None:
        """All files of a folder, those of `last` after the others; then those of `gone` go."""
        inside = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
        names = [name for name in inside if name not in last]
        with self._told():
            for parent in sorted({name.rpartition("/")[0] for name in names}):
                self._files.makedirs(f"{self._root}/{parent}".rstrip("/"), exist_ok=True)
            with ThreadPoolExecutor(_THREADS) as pool:
                for _ in pool.map(lambda name: self._put(folder, name), names):
                    pass
            for name in (name for name in last if (folder / name).exists()):
                with self._files.transaction, self._files.open(f"{self._root}/{name}", "wb") as target:
                    target.write((folder / name).read_bytes())
            for name in gone:
                with contextlib.suppress(FileNotFoundError):
                    self._files.rm_file(f"{self._root}/{name}")

    def _put(self, folder: Path, name: str) -> None:
        """A file that is named by its content. One of that size is there already; half of one is written again."""
        with contextlib.suppress(FileNotFoundError):
            if self._files.info(f"{self._root}/{name}")["size"] == (folder / name).stat().st_size:
                return
        self._files.put_file(str(folder / name), f"{self._root}/{name}")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Each kind of place has errors of its own: one line, without secrets, and what to do."""
        try:
            yield
        except (ShelfError, FileNotFoundError):
            raise
        except ImportError as error:
            raise ShelfError(f"{self.place}: {why(error)}") from error
        except Exception as error:
            said = without_secrets(why(error))
            raise ShelfError(
                f"{self.place}: {said}; look at the address, the connection and the rights, then try again"
            ) from error
