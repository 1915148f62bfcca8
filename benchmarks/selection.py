"""Herding of one class and ScaIL's rewriting of the layer: median and spread of repeated runs, on one thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from scail.exemplars import herding_order
from scail.heads import scale_past_weights


def timed(work: Callable[[], object], repeats: int = 30) -> tuple[float, float, float]:
    """Median, fastest and slowest run in milliseconds, after three to warm up."""
    runs = []
    for _ in range(repeats + 3):
        started = time.perf_counter()
        work()
        runs.append(1000 * (time.perf_counter() - started))
    return statistics.median(runs[3:]), min(runs[3:]), max(runs[3:])


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    features = torch.rand(500, 512, generator=draw)
    current, initial = torch.randn(2, 1000, 512, generator=draw)
    first_state = torch.arange(1000) // 100
    for name, work in (
        ("herding, 500 x 512 features, 20 exemplars", lambda: herding_order(features, 20)),
        ("ScaIL, 1000 classes x 512 features, Z=10", lambda: scale_past_weights(current, initial, first_state)),
    ):
        middle, low, high = timed(work)
        print(f"{name:44} {middle:7.2f} ms (from {low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
