"""What is measured: one row for each method in each state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scail.config.former import present_name
from scail.storage.records import decode


@dataclass(frozen=True)
class Row:
    """What was measured of one method in one state."""

    method: str
    label: str
    in_paper: bool
    select: str | None
    memory: int
    exemplars: int
    """Images in memory after the state."""
    trainer: str
    """Rows of one trainer, selection and memory come from one trajectory."""
    state: int
    classes: int
    """Classes seen."""
    top1: float
    top5: float
    test_images: int
    errors: dict[str, int]
    past_errors_by_origin: list[int]
    scores: dict[str, float | None]
    """Mean score of the true class, for test images of past and of new classes."""
    seed: int
    trained_epochs: int
    """Epochs trained for the state in this run; 0: it came from the store."""
    provenance: dict[str, Any] = field(default_factory=dict)
    exemplar_top1: float | None = None
    """Of the network itself, in percent: on the past classes' exemplars that it was trained with."""
    new_top1: float | None = None
    """On the images of the new classes that it was trained with."""
    initial_top1: float | None = None
    """Of the initial classifiers, on the same exemplars."""
    drift: float | None = None
    """1 - the mean cosine between exemplars' features now and when their class was new."""
    floor: float | None = None
    """100 * P_k / N_k: the top-1 of whoever knows the newest classes only."""
    learned: bool | None = None
    """False: the network is at the floor, or does not know its own exemplars. None: it was not asked."""
    correct_by_state: list[int] | None = None
    """Test images that are right (top-1), by the state in which their class was new. None: not recorded."""
    images_by_state: list[int] | None = None
    """All test images, by the state in which their class was new."""
    task_given: float | None = None
    """Top-1 where the state of each image's class is given, and only its classes compete. None: not recorded."""
    generated_top1: float | None = None
    """Percent of the images that its generators make up which the network recognised in the state in which their class
    was new; over all classes so far. None: nothing is generated."""
    cost: dict[str, int] | None = None
    """What the method costs in this state: the names of `COSTS`."""


COSTS = ("parameters", "flops", "bytes_kept", "image_passes")
"""Parameters and floating-point operations of one prediction, bytes that are kept between states, and images that the
training went through."""
SIZES = COSTS[:2]
"""Those that grow with a network that grows."""
ON_LEARNING = ("exemplar_top1", "new_top1", "initial_top1", "drift", "floor", "learned")
"""What rows say of their network: the same for all methods that are read from one training."""


def row_from(record: Mapping[str, Any]) -> Row:
    """A row as it is kept in files. What version 0.1 read from fine tuning has its present name."""
    row: Row = decode(Row, record, "row")
    name = present_name(row.method, row.trainer)
    return row if name == row.method else replace(row, method=name, label=f"FT^{row.label}")
