"""The training loop against the bare limit: images/s of an incremental state's epochs, and of one fixed batch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from lightning_fabric import Fabric
from torch.nn import functional as F

from scail.allocation import keep_freed_memory
from scail.images import Augmentation
from scail.network import create_network
from scail.recipes import Schedule
from scail.seeding import generator_for
from scail.training import Task
from scail.training.loop import fit

BATCH, CLASSES = 128, 20
CASES = (("resnet8", 1, 12, 7), ("resnet32", 1, 5, 7), ("resnet32", 2, 5, 7), ("resnet18-3x3", 1, 2, 4))
"""Network, threads, batches in an epoch, repeats."""


def epoch(network: str, images: torch.Tensor, labels: torch.Tensor) -> None:
    """One epoch as the trainers run it: crops, mirroring, normalisation, loss, backward, SGD step, and reports."""
    model = create_network(network, 3, CLASSES, generator_for(1, "network"))
    task = Task(1, images, labels, CLASSES, None, Augmentation(4), 1, Fabric(accelerator="cpu", devices=1))
    fit(model, task, Schedule(epochs=1, lr=0.1, batch_size=BATCH))


def bare(network: str, layout: torch.memory_format, images: torch.Tensor, labels: torch.Tensor) -> None:
    """The same network's forward, backward and step, as often, on one batch that is ready in memory."""
    model = create_network(network, 3, CLASSES, generator_for(1, "network")).train()
    model.to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, foreach=True)
    pixels = ((images[:BATCH].float() - 128) / 64).contiguous(memory_format=layout)
    for _ in range(len(images) // BATCH):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model.linear(model.backbone(pixels)), labels[:BATCH]).backward()
        optimizer.step()


def speeds_of(
    ways: Mapping[str, Callable[[], None]], images: int, repeats: int
) -> dict[str, list[tuple[float, float]]]:
    """images/s of each way, which take turns; every round begins with another one. By the clock, and in CPU time."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    names = list(ways)
    for n in range(repeats):
        for name in names[n % len(names) :] + names[: n % len(names)]:
            started, used = time.perf_counter(), time.process_time()
            ways[name]()
            found[name].append((images / (time.perf_counter() - started), images / (time.process_time() - used)))
    return found


def main() -> None:
    """Measure and print."""
    keep_freed_memory()  # as every training process does; the bare limit has it, too
    draw = torch.Generator().manual_seed(0)
    for network, threads, batches, repeats in CASES:
        torch.set_num_threads(threads)
        images = torch.randint(0, 256, (batches * BATCH, 3, 32, 32), dtype=torch.uint8, generator=draw)
        labels = torch.randint(0, CLASSES, (len(images),), generator=draw)
        epoch(network, images[:BATCH], labels[:BATCH])  # the first batch plans its convolutions
        ways = {
            "epoch": partial(epoch, network, images, labels),
            "bare, channels last": partial(bare, network, torch.channels_last, images, labels),
            "bare, contiguous": partial(bare, network, torch.contiguous_format, images, labels),
        }
        speeds = speeds_of(ways, len(images), repeats)
        middle = {name: statistics.median(clock for clock, _ in runs) for name, runs in speeds.items()}
        limit = max(("bare, channels last", "bare, contiguous"), key=lambda name: middle[name])
        pairs = list(zip(speeds["epoch"], speeds[limit], strict=True))
        ratios, of_cpu = (sorted(mine[i] / bound[i] for mine, bound in pairs) for i in (0, 1))
        print(
            f"{network}, {threads} thread{'s' if threads > 1 else ''}: {middle['epoch']:.0f} images/s, limit "
            f"{middle[limit]:.0f} ({limit[6:]}; the other layout {min(middle.values()):.0f}); of the limit "
            f"{statistics.median(ratios):.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f}), in CPU time "
            f"{statistics.median(of_cpu):.2f} (from {of_cpu[0]:.2f} to {of_cpu[-1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
