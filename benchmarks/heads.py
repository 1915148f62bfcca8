"""Herding, every head's rewriting of the layer, and ScaIL from a thousand to a million classes; on one thread."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

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
    """All heads but the SVMs, as functions that rewrite the layer."""
    names = ("ft", "ft_nem", "ft_l2", "ft_init", "ft_init_l2", "scail", "ft_wa", "prior", "tau_norm", "il2m", "siw",
             "siw_mc", "ft_slda", "ft_ridge", "duet", "icarl_duet")  # fmt: skip
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
    """In a process of its own: microseconds a class, MB beside the two layers, and how much of the time is computing.

    The rest is the system's, which must clear memory that the process uses for the first time.
    """
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    current = torch.randn(classes, FEATURES, generator=draw)
    initial = torch.randn(classes, FEATURES, generator=draw)
    first_state = torch.arange(classes) * STATES // classes
    before = resource.getrusage(resource.RUSAGE_SELF)
    repeats = max(1, 20_000 // classes)
    started = time.perf_counter()
    for _ in range(repeats):
        scale_past_weights(current, initial, first_state)
    took = (time.perf_counter() - started) / repeats
    after = resource.getrusage(resource.RUSAGE_SELF)
    computing = (after.ru_utime - before.ru_utime) / repeats
    print(
        f"{1e6 * took / classes:.3f} {(after.ru_maxrss - before.ru_maxrss) / 1024:.2f} {1e6 * computing / classes:.3f}"
    )


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
    scale(Path(sys.argv[1]) if len(sys.argv) > 1 else None)


def scale(picture: Path | None) -> None:
    """ScaIL from a thousand to a million classes, each in processes of their own; perhaps drawn."""
    found = {}
    for classes in SIZES:
        code = f"from benchmarks.heads import many_classes; many_classes({classes})"
        runs = [
            list(
                map(float, subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
            )
            for _ in range(3 if classes < 10**6 else 1)
        ]
        found[classes] = statistics.median(run[0] for run in runs), runs[0][1]
        print(
            f"ScaIL, {classes:9,} classes: {found[classes][0]:6.2f} microseconds a class "
            f"({statistics.median(run[2] for run in runs):.2f} of computing), {found[classes][1]:6.0f} MB "
            f"beside the two layers of {4 * classes * FEATURES / 2**20:.0f} MB each",
            flush=True,
        )
    if picture is not None:
        draw(found, picture)


def draw(found: dict[int, tuple[float, float]], picture: Path) -> None:
    """Time a class and memory against the number of classes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
    left.semilogx(list(found), [time_each for time_each, _ in found.values()], "o-")
    left.set(xlabel="classes", ylabel="microseconds a class", title="ScaIL: time", ylim=(0, None))
    right.loglog(list(found), [more for _, more in found.values()], "o-", label="beside the layers")
    right.loglog(list(found), [4 * n * FEATURES / 2**20 for n in found], "--", label="one layer of 512 features")
    right.set(xlabel="classes", ylabel="MB", title="ScaIL: memory")
    right.legend(frameon=False)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main()
