"""A long list of image files in little memory: their paths, or what is in them, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FileColumn:
    """A million paths as two objects. A list would be a million, which every process of a pool copies bit by bit.

    >>> files = FileColumn.of_paths(["a/1.png", "b/22.png"])
    >>> len(files), files[1]
    (2, 'b/22.png')
    """

    data: bytes
    ends: NDArray[np.int64]
    are_paths: bool

    @classmethod
    def of_paths(cls, paths: Sequence[str]) -> FileColumn:
        """Files that stay where they are."""
        return cls._of([os.fsencode(path) for path in paths], True)

    @classmethod
    def of_contents(cls, contents: Sequence[bytes]) -> FileColumn:
        """Files that are in memory."""
        return cls._of(contents, False)

    @classmethod
    def _of(cls, parts: Sequence[bytes], are_paths: bool) -> FileColumn:
        lengths: Iterable[int] = map(len, parts)
        return cls(b"".join(parts), np.fromiter(lengths, np.int64, len(parts)).cumsum(), are_paths)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, i: int) -> str | bytes:
        part = self.data[int(self.ends[i - 1]) if i else 0 : int(self.ends[i])]
        return os.fsdecode(part) if self.are_paths else part
