"""Herding, every head's rewriting of the layer, and ScaIL from a thousand to a million classes; on one thread."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from scail import heads
from scail.exemplars import herding_order
from scail.heads import Evidence, LinearHead, scale_past_weights

CLASSES, FEATURES, STATES = 1000, 512, 10
SIZES = (10**3, 10**4, 10**5, 10**6)


def evidence_of(classes: int = CLASSES, exemplars: int = 2, new_images: int = 20) -> Evidence:
    """What a learner knows after ten states; random numbers, but of the real shapes."""
    draw = torch.Generator().manual_seed(0)
    first_state_C = torch.arange(classes) * STATES // classes
    new = int((first_state_C == STATES - 1).sum())
    labels_E = torch.arange(classes).repeat_interleave(exemplars)
    labels_M = torch.arange(classes - new, classes).repeat_interleave(new_images)

    def rand(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw)

    return Evidence(
        weight_CD=rand(classes, FEATURES), bias_C=rand(classes), initial_weight_CD=rand(classes, FEATURES),
        initial_bias_C=rand(classes), first_state_C=first_state_C, train_count_C=torch.full((classes,), exemplars),
        initial_score_C=rand(classes).abs(), exemplar_score_C=rand(classes).abs(), top_score_S=rand(STATES).abs() + 1,
        exemplar_features_ED=rand(len(labels_E), FEATURES).abs(), exemplar_labels_E=labels_E,
        new_features_MD=rand(len(labels_M), FEATURES).abs(), new_labels_M=labels_M,
    )  # fmt: skip


def all_heads(evidence: Evidence) -> dict[str, Callable[[], LinearHead]]:
    """The fifteen heads, as functions that rewrite the layer."""
    names = ("ft", "ft_nem", "ft_l2", "ft_init", "ft_init_l2", "scail", "wa", "prior", "tau_norm", "il2m", "siw",
             "siw_mc", "slda", "ridge")  # fmt: skip
    found: dict[str, Callable[[], LinearHead]] = {
        name: lambda name=name: getattr(heads, name)(evidence)  # type: ignore[misc]
        for name in names
    }
    return found | {"bic": lambda: heads.bic(evidence, torch.tensor(0.8), torch.tensor(0.1))}


def timed(work: Callable[[], object], repeats: int = 15) -> tuple[float, float, float]:
    """Median, fastest and slowest run in milliseconds, after two to warm up."""
    runs = []
    for _ in range(repeats + 2):
        started = time.perf_counter()
        work()
        runs.append(1000 * (time.perf_counter() - started))
    return statistics.median(runs[2:]), min(runs[2:]), max(runs[2:])


def many_classes(classes: int) -> None:
    """In a process of its own: microseconds a class, and how much more memory the layers' size times it took."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    current = torch.randn(classes, FEATURES, generator=draw)
    initial = torch.randn(classes, FEATURES, generator=draw)
    first_state = torch.arange(classes) * STATES // classes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    repeats = max(1, 20_000 // classes)
    started = time.perf_counter()
    for _ in range(repeats):
        scale_past_weights(current, initial, first_state)
    took = (time.perf_counter() - started) / repeats
    more = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (4 * current.numel())
    print(f"{1e6 * took / classes:.3f} {more:.2f}")


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    features = torch.rand(500, FEATURES, generator=torch.Generator().manual_seed(0))
    work: dict[str, Callable[[], object]] = {
        "herding, 500 x 512 -> 20": lambda: herding_order(features, 20),
        "scale_past_weights": (lambda e: lambda: scale_past_weights(e.weight_CD, e.initial_weight_CD, e.first_state_C))(
            evidence_of()
        ),
    }
    for name, one in (work | all_heads(evidence_of())).items():
        middle, low, high = timed(one)
        print(f"{name:26} {middle:8.2f} ms (from {low:.2f} to {high:.2f})", flush=True)
    for classes in SIZES:
        code = f"from benchmarks.heads import many_classes; many_classes({classes})"
        runs = [
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
            for _ in range(3)
        ]
        each = sorted(float(run[0]) for run in runs)
        print(
            f"ScaIL, {classes:9,} classes: {each[1]:6.2f} microseconds a class (from {each[0]:.2f} to {each[2]:.2f}), "
            f"memory beside the two layers: {runs[0][1]} times one layer",
            flush=True,
        )


if __name__ == "__main__":
    main()
