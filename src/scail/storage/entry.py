"""What is kept of a state, tensors and facts, and the error where it cannot be kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Entry:
    """What the store holds under a key: tensors, and facts that JSON can carry."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


class StoreError(ValueError):
    """The store cannot be used: what is wrong with which file, and what to do."""


@contextlib.contextmanager
def clear_errors(place: Path, how: str = "") -> Iterator[None]:
    """Full disk, read-only directory: say which place, and what to do; `how` another place is chosen."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write to {place}: {error.strerror or error}; nothing in it was damaged. "
            f"Free some space, or choose another place{how}"
        ) from error
