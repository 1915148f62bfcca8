"""The training loop against the bare limit: images/s of an incremental state's epochs, and of one fixed batch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from lightning_fabric import Fabric
from torch.nn import functional as F

from scail.config import Schedule
from scail.datasets.images.batches import Augmentation
from scail.networks.network import create_network
from scail.runtime.allocation import keep_freed_memory
from scail.runtime.seeds import generator_for
from scail.training import Progress, Task
from scail.training.loop import fit

BATCH, CLASSES = 128, 20
CASES = (("resnet8", 1, 60), ("resnet32", 1, 30), ("resnet32", 2, 30), ("resnet18-3x3", 1, 8))
"""Network, threads, batches."""
LAYOUTS = {"channels last": torch.channels_last, "contiguous": torch.contiguous_format}


def bare_step(
    network: str, layout: torch.memory_format, images: torch.Tensor, labels: torch.Tensor
) -> Callable[[], None]:
    """The same network's forward, backward and step on one batch that is ready in memory."""
    model = create_network(network, 3, CLASSES, generator_for(1, "network")).train()
    model.to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, foreach=True)
    pixels = ((images[:BATCH].float() - 128) / 64).contiguous(memory_format=layout)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model.linear(model.backbone(pixels)), labels[:BATCH]).backward()
        optimizer.step()

    return step


def times_of(network: str, images: torch.Tensor, labels: torch.Tensor) -> dict[str, list[float]]:
    """Seconds of each batch of an epoch as the trainers run it, and of bare steps that take turns with its batches.

    The epoch crops, mirrors, normalises, computes the loss, steps, and reports. The machine's speed changes within
    seconds: only what runs side by side can be compared.
    """
    steps = {name: bare_step(network, layout, images, labels) for name, layout in LAYOUTS.items()}
    times: dict[str, list[float]] = {name: [] for name in ("epoch", *steps)}
    began = 0.0

    def take_turns(progress: Progress) -> None:
        nonlocal began
        if not progress.images:
            return  # the end of the epoch
        times["epoch"].append(time.perf_counter() - began)
        # In the other order every other time: none of them always comes after the same one.
        for name in list(steps)[:: 1 if len(times["epoch"]) % 2 else -1]:
            began = time.perf_counter()
            steps[name]()
            times[name].append(time.perf_counter() - began)
        began = time.perf_counter()

    model = create_network(network, 3, CLASSES, generator_for(1, "network"))
    fabric = Fabric(accelerator="cpu", devices=1)
    task = Task(1, images, labels, CLASSES, None, Augmentation(4), 1, fabric, report=take_turns)
    fit(model, task, Schedule(epochs=1, lr=0.1, batch_size=BATCH))
    return {name: of[1:] for name, of in times.items()}  # the first batch plans its convolutions


def main() -> None:
    """Measure and print."""
    keep_freed_memory()  # as every training process does; the bare limit has it, too
    draw = torch.Generator().manual_seed(0)
    for network, threads, batches in CASES:
        torch.set_num_threads(threads)
        images = torch.randint(0, 256, (batches * BATCH, 3, 32, 32), dtype=torch.uint8, generator=draw)
        labels = torch.randint(0, CLASSES, (len(images),), generator=draw)
        times = times_of(network, images, labels)
        middle = {name: statistics.median(of) for name, of in times.items()}
        limit, other = sorted(LAYOUTS, key=lambda name: middle[name])
        shares = [bound / mine for mine, bound in zip(times["epoch"], times[limit], strict=True)]
        low, half, high = statistics.quantiles(shares, n=4)
        speed = {name: BATCH / seconds for name, seconds in middle.items()}
        print(
            f"{network}, {threads} thread{'s' if threads > 1 else ''}: {speed['epoch']:.0f} images/s, limit "
            f"{speed[limit]:.0f} ({limit}; the other layout {speed[other]:.0f}); of the limit {half:.3f} "
            f"(middle half of {len(shares)} batches: {low:.2f} to {high:.2f}), by time in all "
            f"{sum(times[limit]) / sum(times['epoch']):.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
