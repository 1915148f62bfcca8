"""How long trainings will take here: one short measurement for each network and image size."""

from __future__ import annotations

import time
from functools import lru_cache

import torch
from torch.nn import functional as F

from scail.network import create_network
from scail.processes import available_cores
from scail.seeding import generator_for

_SECOND_PROCESS = 0.4
"""What a further process adds. Cores share memory and caches: two processes of one thread on two cores were measured to
do about 1.4 times the work of one, and it is better to promise too little."""
_LARGE = 100  # pixels: from here on a few images take seconds


@lru_cache(maxsize=32)
def seconds_per_image(
    network: str, shape: tuple[int, int, int], classes: int, threads: int, accelerator: str, precision: str
) -> float:
    """Seconds for one image in training (forward, backward, step), measured on random images for a second or so."""
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator=accelerator, devices=1, precision=precision)  # type: ignore[arg-type]
    model = create_network(network, shape[0], classes, generator_for(0, "timing"))
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 1e-3))
    count = 4 if shape[1] >= _LARGE else 32
    images = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator_for(0, "images"))
    images, labels = images.to(fabric.device), (torch.arange(count) % classes).to(fabric.device)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        fabric.backward(loss)
        optimizer.step()
        loss.item()  # waits for the device

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        step()  # the first one prepares
        steps, began = 0, time.perf_counter()
        while steps < 2 or (time.perf_counter() - began < 0.5 and steps < 50):
            step()
            steps += 1
        return (time.perf_counter() - began) / (steps * count)
    finally:
        torch.set_num_threads(before)


def speed_of(processes: int) -> float:
    """How many times the work of one process so many do together.

    >>> speed_of(1)
    1.0
    """
    return 1 + _SECOND_PROCESS * (min(processes, available_cores()) - 1)


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(40), duration(5400), duration(300_000), duration(0)
    ('40 s', '1.5 h', '3.5 days', '0 s')
    """
    for unit, length in (("years", 365 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * length if unit == "days" else length):
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.0f} s"
