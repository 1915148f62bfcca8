"""Still: a network of which the layer alone learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scail.networks.network import Network


@contextmanager
def held(network: Network) -> Iterator[None]:
    """Meanwhile the backbone does not move, and none of its norms goes by batches."""
    moving = [p for p in network.backbone.parameters() if p.requires_grad]
    network.backbone.requires_grad_(False)
    network.still = True
    yield
    network.still = False
    for parameter in moving:
        parameter.requires_grad_(True)
