"""What may be asked of a data set beside its name. Light: nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FILES_SIZE = 64
"""Side of image files in pixels, where nothing else is asked for."""


@dataclass(frozen=True)
class DataSettings:
    """Which part of a data set, how it is cut into training and test images, and how it is read."""

    classes: int | None = None
    """How many classes; None: all."""
    images_per_class: int | None = None
    """At most so many training images a class; None: all."""
    image_size: int | None = None
    """Side of the images in pixels; None: as the data set has it, and 64 for image files."""
    split: Literal["icarl", "official"] = "icarl"
    """ILSVRC: 50 images a class held out of the training folder, or the official validation images."""
    held_out: float = 0.2
    """Share of each class that becomes test images, where a data set has none of its own."""
    split_seed: int = 0
    """Draws the images that are held out."""
    on_disk: bool | None = None
    """Decode images when they are needed; None: where they are larger than 64 pixels or fill more than 2 GiB."""
    broken: Literal["error", "skip"] = "error"
    """An image that cannot be read: stop, or leave it out and count it."""
    image_column: str | None = None
    label_column: str | None = None
    """Columns of a data set of the Hub; None: found by their kind."""
    workers: int = 2
    """Threads that decode images; they change no pixel."""

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ValueError(f"held out is {self.held_out}, expected a share between 0 and 1")
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}, expected 1 or more")
        if self.image_size is not None and not 8 <= self.image_size <= 1024:
            raise ValueError(f"image size is {self.image_size}, expected 8 to 1024 pixels")
