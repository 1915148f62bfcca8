"""The confusion matrices of a method, one for each state, read back: nothing in their file is taken on trust."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from scail.storage.reading import why

_MEMBER = re.compile(r"state_(\d{1,6})\.npy")
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ConfusionMatrices:
    """What is in the file of a method."""

    def __init__(self, path: Path, sizes: Sequence[int]) -> None:
        """`sizes`: how many classes are new in each state of the run."""
        self.path = path
        self._classes, self._members = list(accumulate(sizes)), dict[int, zipfile.ZipInfo]()
        try:
            with zipfile.ZipFile(path) as archive:
                for one in archive.infolist():
                    self._members[self._state_of(one)] = one
        except Exception as error:  # zipfile has a dozen kinds
            raise self._damaged(error) from error

    @property
    def sides(self) -> dict[int, int]:
        """How many classes each state has, by state; Full knows all of them in its only one."""
        alone = [*self._members] == [0]
        return {state: self._classes[-1 if alone else state] for state in sorted(self._members)}

    def of(self, state: int) -> NDArray[Any]:
        """Classes x classes counts after a state."""
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._members[state]) as file:
                return _matrix(file, {self._classes[state], self._classes[-1]})
        except Exception as error:
            raise self._damaged(error) from error

    def _state_of(self, one: zipfile.ZipInfo) -> int:
        found = _MEMBER.fullmatch(one.filename)
        if not found or int(found[1]) >= len(self._classes) or one.compress_type not in _PACKED:
            raise ValueError(f"holds {one.filename[:40]!r}, expected state_0.npy and so on")
        return int(found[1])

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(f"{self.path}: damaged ({why(error)}); run it again, or leave this run out")


def _matrix(file: IO[bytes], sides: set[int]) -> NDArray[Any]:
    """A square of counts of one of these sides, in numpy's format; no more is read than it should hold."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, kind = header(file)
    if kind.kind not in "iu" or len(shape) != 2 or shape[0] != shape[1] or shape[0] not in sides:
        raise ValueError(f"{shape} of {kind}, expected counts of {' or '.join(map(str, sorted(sides)))} classes")
    size = shape[0] ** 2 * kind.itemsize
    data = file.read(size)
    if len(data) != size or file.read(1):
        raise ValueError(f"its content does not fit its shape {shape}")
    matrix = np.frombuffer(data, kind).reshape(shape, order="F" if by_columns else "C")
    if matrix.min(initial=0) < 0 or matrix.max(initial=0) >= 2**32:
        raise ValueError("holds numbers that are no counts")
    return matrix
