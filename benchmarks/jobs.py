"""A small grid with two processes of one thread against one, from an empty store each time; the rows must be equal.

`python -m benchmarks.jobs 32-true` (or bf16-mixed) asks for a precision; else it is what is quick here.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from scail.benchmark.runner import run_experiment
from scail.config.recipes import quick


def main(precision: str) -> None:
    """Measure, print, assert."""
    recipe = quick("glyphs").but(methods=("ft", "scail", "full"), states=5, classes=40, images_per_class=50)
    recipe = recipe.with_epochs((15, 9)).but(precision=precision)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    rows: dict[int, list[float]] = {}
    for repeat in range(3):
        for jobs in (1, 2) if repeat % 2 == 0 else (2, 1):
            with tempfile.TemporaryDirectory() as place:
                started = time.perf_counter()
                results = run_experiment(recipe, Path(place) / "run", store=Path(place) / "store", jobs=jobs)
                seconds[jobs].append(time.perf_counter() - started)
                rows[jobs] = [row.top1 for row in results.rows]
    one, two = statistics.median(seconds[1]), statistics.median(seconds[2])
    print(f"{precision}: one process {one:.1f} s, two {two:.1f} s (with their start): {one / two:.2f} times as fast")
    assert rows[1] == rows[2], "the number of processes must not change a number"


if __name__ == "__main__":
    main(*sys.argv[1:] or ["auto"])
