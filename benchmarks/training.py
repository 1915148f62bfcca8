"""The training loop against the bare limit: images/s of an incremental state's epochs, and of one fixed batch.

In 32 bits; and in bfloat16 beside 32 bits, where the processor is quick at it, or where `python -m benchmarks.training
bf16-mixed` asks for it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from scail.config import Schedule
from scail.datasets.images.batches import Augmentation
from scail.networks.network import Network, create_network
from scail.networks.precision import FULL, HALF, quick_bf16
from scail.runtime.allocation import keep_freed_memory
from scail.runtime.devices import make_fabric
from scail.runtime.seeds import generator_for
from scail.training import Progress, Task
from scail.training.loop import fit
from scail.training.losses import BatchLoss, cross_entropy

BATCH, CLASSES = 128, 20
CASES = (("resnet8", 1, 60), ("resnet8-half", 1, 60), ("resnet32", 1, 30), ("resnet32", 2, 30), ("resnet18-3x3", 1, 8))
"""Network, threads, batches."""
LAYOUTS = {"channels last": torch.channels_last, "contiguous": torch.contiguous_format}
LEAST = 0.95
"""The loop's share of the bare one in bfloat16."""


def bare_step(
    network: str, layout: torch.memory_format, images: torch.Tensor, labels: torch.Tensor, half: bool = False
) -> Callable[[], None]:
    """The same network's forward, backward and step on one batch that is ready in memory; `half`: in bfloat16."""
    model = fresh(network).train()
    model.to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, foreach=True)
    pixels = ((images[:BATCH].float() - 128) / 64).contiguous(memory_format=layout)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            scores = model.linear(model.backbone(pixels))
        F.cross_entropy(scores.float(), labels[:BATCH]).backward()
        optimizer.step()

    return step


def times_of(
    model: Network, images: torch.Tensor, labels: torch.Tensor, precision: str, steps: dict[str, Callable[[], None]],
    loss: BatchLoss = cross_entropy,
) -> dict[str, list[float]]:  # fmt: skip
    """Seconds of each batch of an epoch as the trainers run it, and of bare steps that take turns with its batches.

    The epoch crops, mirrors, normalises, computes the loss, steps, and reports. The machine's speed changes within
    seconds: only what runs side by side can be compared.
    """
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

    fabric = make_fabric("cpu", precision)
    task = Task(1, images, labels, CLASSES, None, Augmentation(4), 1, fabric, report=take_turns)
    fit(model, task, Schedule(epochs=1, lr=0.1, batch_size=BATCH), loss)
    return {name: of[1:] for name, of in times.items()}  # the first batch plans its convolutions


def shares_of(times: dict[str, list[float]], limit: str) -> str:
    """Images/s of the epoch and of the limit, and the epoch's share of it, by the batch."""
    shares = [bound / mine for mine, bound in zip(times["epoch"], times[limit], strict=True)]
    low, half, high = statistics.quantiles(shares, n=4)
    speed = {name: BATCH / statistics.median(of) for name, of in times.items()}
    others = ", ".join(f"{name} {speed[name]:.0f}" for name in times if name not in ("epoch", limit))
    return (
        f"{speed['epoch']:.0f} images/s, limit {speed[limit]:.0f} ({limit}; {others}); of the limit {half:.3f} "
        f"(middle half of {len(shares)} batches: {low:.2f} to {high:.2f}), by time in all "
        f"{sum(times[limit]) / sum(times['epoch']):.3f}"
    )


def fresh(network: str) -> Network:
    """A network that has learned nothing."""
    return create_network(network, 3, CLASSES, generator_for(1, "network"))


def main(half: bool) -> None:
    """Measure and print."""
    keep_freed_memory()  # as every training process does; the bare limit has it, too
    draw = torch.Generator().manual_seed(0)
    for network, threads, batches in CASES:
        torch.set_num_threads(threads)
        images = torch.randint(0, 256, (batches * BATCH, 3, 32, 32), dtype=torch.uint8, generator=draw)
        labels = torch.randint(0, CLASSES, (len(images),), generator=draw)
        title = f"{network}, {threads} thread{'s' if threads > 1 else ''}"
        steps = {name: bare_step(network, layout, images, labels) for name, layout in LAYOUTS.items()}
        times = times_of(fresh(network), images, labels, FULL, steps)
        print(f"{title}: {shares_of(times, min(LAYOUTS, key=lambda name: statistics.median(times[name])))}", flush=True)
        if not half:
            continue
        steps = {name: bare_step(network, torch.channels_last, images, labels, name == HALF) for name in (HALF, FULL)}
        times = times_of(fresh(network), images, labels, HALF, steps)
        print(f"{title}, {HALF}: {shares_of(times, HALF)}", flush=True)
        assert sum(times[HALF]) / sum(times["epoch"]) >= LEAST


if __name__ == "__main__":
    main(HALF in sys.argv[1:] or quick_bf16("cpu"))
