"""How long trainings will take here: one short measurement for each network and image size."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial

import torch
from torch.nn import functional as F

from scail.datasets.images.batches import Augmentation, training_batches
from scail.networks.network import create_network
from scail.runtime.devices import make_fabric
from scail.runtime.seeds import generator_for

_OPERATIONS = 2e10  # of one forward pass in the measurement: a second or so on a slow core
_LONG = 1.0  # seconds: a step that takes longer is measured once, without a rehearsal


@lru_cache(maxsize=32)
def seconds_per_image(
    network: str, shape: tuple[int, int, int], flops: int, threads: int, accelerator: str, precision: str
) -> tuple[float, float]:
    """Seconds for one image in training (crop, forward, backward, step), and for one that is only looked at (forward).

    Measured on random images for a second or so.

    `flops`: operations of one image's forward pass.
    """
    fabric = make_fabric(accelerator, precision)
    model = create_network(network, shape[0], 10, generator_for(0, "timing"))
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 1e-3, 0.9, weight_decay=1e-4))
    count = int(min(max(_OPERATIONS / flops, 2), 32))
    images = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator_for(0, "images"))
    targets = torch.arange(count) % 10
    shown, draw = images.to(fabric.device), partial(generator_for, 0, "timing")

    def step() -> float:
        began = time.perf_counter()
        ((batch, labels),) = training_batches(images, targets, count, Augmentation(), draw)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch.to(fabric.device)), labels.to(fabric.device))
        fabric.backward(loss)
        optimizer.step()
        loss.item()  # waits for the device
        return time.perf_counter() - began

    def look() -> float:
        began = time.perf_counter()
        with torch.inference_mode():
            float(model(shown).sum())
        return time.perf_counter() - began

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        trained = _repeated(step) / count
        model.eval()
        return trained, _repeated(look) / count
    finally:
        torch.set_num_threads(before)


def _repeated(act: Callable[[], float]) -> float:
    """What it takes, in the mean of some turns."""
    took = [first] if (first := act()) > _LONG else [act()]  # the first one prepares
    while sum(took) < _LONG / 2 and len(took) < 50:
        took.append(act())
    return sum(took) / len(took)


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(40), duration(5400), duration(300_000), duration(1e6), duration(0)
    ('40 s', '1.5 h', '3.5 days', '12 days', '0 s')
    """
    for unit, length in (("years", 365 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * length if unit == "days" else length):
            return f"{seconds / length:,.{1 if seconds < 10 * length else 0}f} {unit}"
    return f"{seconds:.0f} s"
