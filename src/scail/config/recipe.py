"""What a network is and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass, field

from scail.config.roles import WAY
from scail.config.schedule import Schedules


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Network, augmentation and schedules."""

    name: str = field(metadata={"record": "recipe", "role": WAY})
    """The named recipe that this one started from."""
    network: str
    """The name of the network, as `resnet8`."""
    weights: str | None = None
    """What the network begins with: `pretrained`, or a safetensors file; None: nothing, it is trained from scratch."""
    padding: int = 4
    """Pixels added on each side before the random crop."""
    keep_past_rows: bool = False
    """Fine tuning: keep the past rows of the linear layer instead of re-creating all of it in each state."""
    few_negatives: bool = False
    """DeeSIL: each class learns against at most B images, spread over all classes, instead of against all at hand."""
    schedules: Schedules
    """By name; every trainer declares which of them it uses."""
