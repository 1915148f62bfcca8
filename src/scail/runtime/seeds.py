"""Random generators, each derived from what it is for: no global random state, and no order of calls that matters."""

from __future__ import annotations

import hashlib

from torch import Generator


def generator_for(seed: int, *purpose: int | str) -> Generator:
    """A generator of its own for (seed, purpose...), e.g. `generator_for(1, "shuffle", state, epoch)`."""
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
