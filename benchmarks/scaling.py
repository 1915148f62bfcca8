"""What large grids would take, on paper: counts of `scail grid`'s plan times throughputs that are stated, not measured.

Prints the tables of docs/how-to/several-devices.md: `python -m benchmarks.scaling`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scail.benchmark.configuration import Configuration
from scail.benchmark.grid import settle_grid
from scail.benchmark.paper_grids import named_grid
from scail.benchmark.plan import trajectories_of
from scail.benchmark.trajectory import Trajectory

GPU_IMAGES = 2000.0  # images/s of one GPU: ResNet-18, 224 pixels, training, mixed precision: an assumption
SMALL_GPU_IMAGES = 4000.0  # the same for its 3x3 stem at 32 pixels: an assumption
TEACHER = 1.25  # a training with a teacher takes so much longer: its forward pass is a quarter of three
STATE_BYTES = 45e6  # a network of 11.2 million parameters
FEATURE_BYTES = 512 * 4


@dataclass(frozen=True)
class Cost:
    """What some trajectories take."""

    trainings: int
    epochs: int
    images: float
    """Images gone through."""
    gpu_hours: float
    longest: tuple[float, str]
    """GPU hours of the longest chain of states, which a grid cannot split, and its name."""
    store: float
    """Bytes of all states."""


def cost_of(found: Sequence[Trajectory]) -> Cost:
    """Every state counted once."""
    states: dict[str, tuple[int, int, float, float]] = {}
    chains = dict[str, float]()
    for one in found:
        seconds = [passes / rate_of(one) for passes in one.passes]
        chains[one.name] = max(chains.get(one.name, 0), sum(seconds))
        known = zip(one.keys, one.epochs, one.passes, seconds, one.states, strict=True)
        for key, epochs, passes, time, state in known:
            images = len(state.train_indices) + (one.memory if state.index else 0)
            states[key] = (epochs, passes, time, STATE_BYTES + images * FEATURE_BYTES)
    trained = [state for state in states.values() if state[0]]
    return Cost(
        trainings=len(trained),
        epochs=sum(epochs for epochs, *_ in trained),
        images=sum(passes for _, passes, *_ in trained),
        gpu_hours=sum(time for *_, time, _ in trained) / 3600,
        longest=max((time / 3600, title) for title, time in chains.items()),
        store=sum(size for *_, size in states.values()),
    )


def rate_of(one: Trajectory) -> float:
    """Images/s of one GPU in this trajectory."""
    rate = SMALL_GPU_IMAGES if one.configuration.experiment.dataset == "cifar100" else GPU_IMAGES
    return rate / (TEACHER if one.trainer in ("distill", "bic", "e2e") else 1)


def configurations_of(datasets: Sequence[str], methods: Sequence[str] = ()) -> tuple[Configuration, ...]:
    """Table 1 in the paper's recipe; published numbers stand for data that are not here."""
    points = named_grid("table1", datasets, methods, options={"recipe": "paper"})
    return settle_grid(points, Path("unused")).configurations


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as nowhere:
        os.environ["SCAIL_DATA"] = nowhere  # always the published numbers
        names = ("ilsvrc", "vggface2", "landmarks", "cifar100")
        one = [of for of in configurations_of(["ilsvrc"]) if of.title.startswith("ilsvrc-z10-b20000")]
        rows = {"ILSVRC, Z=10, B=20000": cost_of(trajectories_of(one))}
        rows |= {f"table1, {name}": cost_of(trajectories_of(configurations_of([name]))) for name in names}
        rows["table1, all"] = cost_of(trajectories_of(configurations_of(names)))
    print("| | trainings | epochs | images gone through | GPU hours | longest chain, GPU hours | store |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, cost in rows.items():
        print(
            f"| {name} | {cost.trainings:,} | {cost.epochs:,} | {cost.images / 1e6:,.0f} M | {cost.gpu_hours:,.0f} | "
            f"{cost.longest[0]:,.0f} ({cost.longest[1]}) | {cost.store / 1e9:,.0f} GB |"
        )


if __name__ == "__main__":
    main()
