"""Images that stay on disk, as files or inside Arrow tables; memory does not grow with their number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.datasets.images.decode import DECODE_VERSION, Box, BrokenImage, middle_square, read_region
from scail.datasets.images.file_column import FileColumn

if TYPE_CHECKING:
    import pyarrow

_TIFF = (b"II*\0", b"MM\0*")
_HEAD, _MIDDLE = 512, 256  # bytes of an image's file that go into its stamp, with its length
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class ImageTable:
    """Rows of a column of images, each a path or the bytes of a file; decoded `size` pixels square."""

    column: FileColumn | pyarrow.ChunkedArray
    """Files; or, in Arrow, structs of `bytes` and `path`, as Hugging Face data sets store images."""
    stamps: NDArray[np.uint64]
    """A number per row of the column that changes with the image."""
    rows: Tensor
    size: int
    workers: int
    """Threads that decode."""
    place: str = ""
    """Where the table is, for errors about its rows."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor) -> ImageTable:
        return replace(self, rows=self.rows[rows])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of images, and channels, height and width of each."""
        return len(self), 3, self.size, self.size

    def stamp(self) -> bytes:
        """What tells these images, in this order, from any others."""
        stamps: NDArray[np.uint64] = self.stamps[self.rows.numpy()]
        return repr((self.size, DECODE_VERSION)).encode() + stamps.tobytes()

    def file(self, i: int) -> str | bytes:
        """Image i: where it is, or what is in its file."""
        found = self.column[int(self.rows[i])]
        if isinstance(found, str | bytes):
            return found
        value: dict[str, Any] = found.as_py()
        file: str | bytes = value["path"] if value["bytes"] is None else value["bytes"]
        return file

    def read(self, i: int, choose: Callable[[int, int], Box], size: int | None = None) -> NDArray[np.uint8]:
        """size x size x 3: the region of image i that `choose(width, height)` picks."""
        file = self.file(i)
        try:
            return read_region(file, choose, size or self.size)
        except BrokenImage as error:
            if isinstance(file, bytes):
                where = f"{self.place}, " if self.place else ""
                raise BrokenImage(f"{where}row {int(self.rows[i])}: {error}") from error
            raise

    def in_memory(self) -> Tensor:
        """All of them, decoded now: the middle square of each, uint8, N x 3 x size x size."""
        decoded = torch.empty(self.shape, dtype=torch.uint8)
        pixels = decoded.numpy()

        def decode(i: int) -> None:
            pixels[i] = self.read(i, middle_square).transpose(2, 0, 1)

        for _ in in_threads(decode, range(len(self)), self.workers):
            pass
        return decoded

    def find_broken(self, progress: Callable[[int], None] = lambda count: None) -> dict[int, str]:
        """Rows that cannot be read, and why: opens every image."""

        def trouble(i: int) -> str | None:
            try:
                self.read(i, middle_square, min(self.size, 32))
            except BrokenImage as error:
                return str(error)
            return None

        found = dict[int, str]()
        for i, error in enumerate(in_threads(trouble, range(len(self)), self.workers)):
            progress(1)
            if error is not None:
                found[i] = error
        return found


def in_threads(function: Callable[[A], B], values: Sequence[A], workers: int) -> Iterator[B]:
    """function(value) of each, in order; a thousand at a time, so that nothing piles up."""
    with ThreadPoolExecutor(max(1, workers)) as threads:
        for begin in range(0, len(values), 1024):
            yield from threads.map(function, values[begin : begin + 1024])


def table_of_files(paths: Sequence[str], size: int, workers: int) -> ImageTable:
    """Image files as they are; each is told apart by its name, length and time of change."""

    def stamp(path: str) -> int:
        try:
            status = Path(path).stat()
        except FileNotFoundError as error:
            raise ValueError(f"{error.filename}: no such image") from error
        except (OSError, ValueError) as error:  # a name that no file can have
            raise ValueError(f"{path}: cannot be looked at ({getattr(error, 'strerror', None) or error})") from error
        # Class folder and name: the same data in another place are the same data.
        said = ([*Path(path).parts[-2:]], status.st_size, status.st_mtime_ns)
        return hash_number(repr((*said, *tiff_mark(path.lower().endswith((".tif", ".tiff"))))))

    stamps = np.fromiter(in_threads(stamp, paths, 4), np.uint64, len(paths))
    return ImageTable(FileColumn.of_paths(paths), stamps, torch.arange(len(paths)), size, workers)


def table_of_contents(files: Sequence[bytes], size: int, workers: int) -> ImageTable:
    """Image files that are in memory; each is told apart by its length and some of its bytes."""
    stamps = np.fromiter((stamp_of_content(memoryview(file)) for file in files), np.uint64, len(files))
    return ImageTable(FileColumn.of_contents(files), stamps, torch.arange(len(files)), size, workers)


def stamp_of_content(data: memoryview) -> int:
    """A number that changes with the image in a file."""
    said = (len(data), bytes(data[:_HEAD]), bytes(data[len(data) // 2 :][:_MIDDLE]))
    return hash_number(repr((*said, *tiff_mark(said[1][:4] in _TIFF))))


def tiff_mark(is_tiff: bool) -> tuple[str, ...]:
    """What the stamp of a TIFF file has beside others': since fractions and twelve bits are read as they are meant."""
    return ("tiff 2",) if is_tiff else ()


def hash_number(text: str) -> int:
    """64 bits of a hash."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
