"""The training loop against the bare limit: images/s of an incremental state's epochs, and of one fixed batch."""

from __future__ import annotations

import statistics
import time

import torch
from lightning_fabric import Fabric
from torch.nn import functional as F

from scail.images import Augmentation
from scail.network import create_network
from scail.recipes import Schedule
from scail.seeding import generator_for
from scail.training import Task
from scail.training.loop import fit

BATCH, REPEATS, CLASSES = 128, 7, 20
BATCHES = {"resnet8": 40, "resnet32": 12, "resnet18-3x3": 2}


def epoch_speed(network: str, images: torch.Tensor, labels: torch.Tensor, fabric: Fabric) -> float:
    """images/s of one epoch as the trainers run it: crops, mirroring, normalisation, loss, backward, SGD step."""
    model = create_network(network, 3, CLASSES, generator_for(1, "network"))
    task = Task(1, images, labels, CLASSES, None, Augmentation(4), 1, fabric)
    started = time.perf_counter()
    fit(model, task, Schedule(epochs=1, lr=0.1, batch_size=BATCH))
    return len(images) / (time.perf_counter() - started)


def bare_speed(network: str, images: torch.Tensor, labels: torch.Tensor) -> float:
    """images/s of the same network's forward, backward and step on one batch that is ready in memory."""
    model = create_network(network, 3, CLASSES, generator_for(1, "network")).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, foreach=True)
    pixels = ((images[:BATCH].float() - 128) / 64).contiguous(memory_format=torch.channels_last)
    started = time.perf_counter()
    for _ in range(len(images) // BATCH):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model.linear(model.backbone(pixels)), labels[:BATCH]).backward()
        optimizer.step()
    return len(images) / (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    fabric = Fabric(accelerator="cpu", devices=1)
    draw = torch.Generator().manual_seed(0)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for network, batches in BATCHES.items():
            images = torch.randint(0, 256, (batches * BATCH, 3, 32, 32), dtype=torch.uint8, generator=draw)
            labels = torch.randint(0, CLASSES, (len(images),), generator=draw)
            epoch_speed(network, images[:BATCH], labels[:BATCH], fabric)  # the first batch plans its convolutions
            pairs = [
                (epoch_speed(network, images, labels, fabric), bare_speed(network, images, labels))
                for _ in range(REPEATS)
            ]
            ours, bare = (statistics.median(speeds) for speeds in zip(*pairs, strict=True))
            ratios = sorted(mine / limit for mine, limit in pairs)
            middle, spread = statistics.median(ratios), f"from {ratios[0]:.2f} to {ratios[-1]:.2f}"
            name = f"{network}, {threads} thread{'s' if threads > 1 else ''}"
            print(f"{name:26} {ours:6.0f} images/s of {bare:6.0f}: {middle:.2f} of the limit ({spread})")


if __name__ == "__main__":
    main()
