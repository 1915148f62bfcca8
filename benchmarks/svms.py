"""DeeSIL at the paper's size: time and memory of its SVMs, measured on a few classes and extrapolated.

1000 classes in ten states, half a million feature vectors of 512 in all: each state fits 100 SVMs on 50,000 vectors.
"""

from __future__ import annotations

import os
import resource
import time

import numpy as np

from scail.training.frozen_svm import fit_svms


def main() -> None:
    """Measure at two sizes, print the time per class and what it makes for all."""
    draw = np.random.default_rng(0)
    centres = draw.random((100, 512))
    cores = os.cpu_count() or 1
    fit_svms(centres, np.arange(100) % 2, [0, 1], 1.0)  # imports scikit-learn
    for count in (10_000, 50_000):
        labels = np.arange(count) % 100
        features = np.abs(centres[labels] + 0.6 * draw.standard_normal((count, 512)))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        started = time.perf_counter()
        fit_svms(features, labels, list(range(cores)), 1.0)
        each = (time.perf_counter() - started) / cores
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{count:6} vectors: {each:6.2f} s a class ({cores} at a time), {used:.1f} GB in use")
    print(f"1000 classes in ten states of 50,000 vectors: {1000 * each / 3600:.1f} h, choosing C not counted")


if __name__ == "__main__":
    main()
