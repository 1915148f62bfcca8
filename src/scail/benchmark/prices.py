"""What trainings cost on this machine: seconds for an image and for the end of an epoch, measured in a moment."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from scail.benchmark.configuration import Configuration
from scail.networks.network import blank_network
from scail.networks.timing import seconds_per_image
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry

_SAVES = 5


@dataclass(frozen=True)
class Prices:
    """Seconds."""

    training: float = 0.0
    """For an image that is trained on."""
    looking: float = 0.0
    """For an image that is only looked at."""
    epoch: float = 0.0
    """For the end of an epoch: where the training stands is saved then."""


def prices_of(configuration: Configuration) -> Prices:
    """Those of a configuration, here."""
    network, machine = configuration.experiment.recipe.network, configuration.experiment.machine
    each = seconds_per_image(
        network, configuration.dataset.shape, configuration.network["flops"], machine.threads, machine.accelerator,
        machine.precision,
    )  # fmt: skip
    return Prices(*each, _seconds_to_save(network, configuration.dataset.shape[0]))


@lru_cache(maxsize=32)
def _seconds_to_save(network: str, channels: int) -> float:
    """For the weights, and a momentum for each, as a training saves them."""
    weights = blank_network(network, channels).state_dict()
    entry = Entry({f"{of}.{name}": t.clone() for name, t in weights.items() for of in ("network", "momentum")}, {})
    with tempfile.TemporaryDirectory(prefix="scail-plan-") as place:
        checkpoint, began = Checkpoint(Path(place) / "checkpoint"), time.perf_counter()
        for _ in range(_SAVES):
            checkpoint.save(entry)
        return (time.perf_counter() - began) / _SAVES
