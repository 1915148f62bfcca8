"""Pictures that look alike, in groups. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def alike(features: Sequence[NDArray[np.float32]], apart: float) -> list[list[int]]:
    """Groups of rows, the largest first; in a group, those in its middle first.

    Two groups become one as long as their pictures are, on average, no farther apart than this (1 - cosine).

    >>> alike([np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.1, 1.0]), np.array([-0.1, 1.0])], 0.3)
    [[1, 2, 3], [0]]
    """
    if len(features) < 2:
        return [[row] for row in range(len(features))]
    from scipy.cluster.hierarchy import fcluster, linkage

    unit = np.stack(features).astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True).clip(1e-12)
    groups = fcluster(linkage(unit, "average", metric="cosine"), apart, "distance")
    found = []
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        middle = unit[rows].mean(0)
        found.append([int(row) for row in rows[np.argsort(-(unit[rows] @ middle), kind="stable")]])
    return sorted(found, key=lambda rows: (-len(rows), rows[0]))
