"""A classifier that keeps learning, as a value: all that its folder holds, and the scores that it gives.

Shapes: N images, C classes, E exemplars, H held-out images.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from scail.classifier.odds import Odds
from scail.classifier.settings import Settings, check_head, named_method
from scail.datasets.images.on_disk import in_threads
from scail.exemplars import Memory
from scail.heads import LinearHead
from scail.heads.strangeness import Familiar, Strangeness, moments_at_hand, strangeness_of
from scail.learner import Learned
from scail.methods import head_of

MOST_HISTORY = 100
"""Calls that are written down; what came before is forgotten, so that the record stays short."""


@dataclass(frozen=True)
class Kept:
    """Images that a classifier keeps: `memory.exemplars[c]` are rows of `images`, of class c, best first."""

    images: Tensor
    memory: Memory

    @classmethod
    def chosen(cls, images: Tensor, memory: Memory) -> Kept:
        """Of these images those in the memory, which is renumbered."""
        rows = torch.arange(len(memory)).split([len(rows) for rows in memory.exemplars])
        return cls(images[memory.indices], Memory(memory.budget, tuple(rows)))


def digest_of_pixels(image: Tensor) -> bytes:
    """16 bytes: a hash of an image's shape and pixels."""
    digest = hashlib.sha256(repr(tuple(image.shape)).encode())
    digest.update(image.contiguous().numpy().data)
    return digest.digest()[:16]


def digests_of(images: Iterable[Tensor]) -> list[bytes]:
    """The same of each image, on all cores."""
    return list(in_threads(digest_of_pixels, [*images], os.cpu_count() or 1))


@dataclass(frozen=True)
class Seen:
    """Images that were learned in one call, as numbers: they make it possible to take images back."""

    features_ND: Tensor
    labels_N: Tensor
    digests_N: Tensor
    """N x 16 bytes: a hash of each image's content."""

    @classmethod
    def of(cls, features_ND: Tensor, labels_N: Tensor, images: Iterable[Tensor]) -> Seen:
        """These images, with their hashes."""
        digests = bytearray(b"".join(digests_of(images)))
        return cls(features_ND, labels_N, torch.tensor(digests, dtype=torch.uint8).view(-1, 16))


@dataclass(frozen=True)
class Model:
    """A classifier after a state."""

    settings: Settings
    classes: tuple[str, ...]
    """In order of arrival: the name of label c is classes[c]."""
    learned: Learned
    """Its memory counts rows of `exemplars.images`."""
    exemplars: Kept
    held_out: Kept
    calls: int = 1
    """How often it learned."""
    history: tuple[dict[str, Any], ...] = ()
    accuracy: dict[str, Any] | None = None
    """Top-1 and top-5 on the images held out, after the last call."""
    difference: dict[str, Any] | None = field(default=None)
    """What the last call did to past classes, on images held out: per class images, correct before, correct after."""
    odds: Odds = field(default_factory=Odds)
    """What scores are as odds."""
    familiar: Familiar | None = None
    """How similar learned images are to their classes: the scale of strangeness. None: nothing is unknown."""
    left_out: dict[str, Any] | None = None
    """Top-1 and top-5 on learned images, each left out once; None where there is no closed form."""
    seen: tuple[Seen, ...] = ()
    """Frozen networks: every image that was learned, as numbers; one part for each call."""
    lesson: str = ""
    """The key of what it has just learned."""

    def __post_init__(self) -> None:
        if self.settings.int8 != (
            self.learned.network.int8 is not None
        ):  # features of one kind mean nothing to another
            raise ValueError("its settings say int8 and its network does not, or the other way about")

    def head(self) -> LinearHead:
        """The head of its method."""
        return head_of(self.settings.method, self.settings.experiment.heads, self.learned)

    def scores(self, images: Tensor) -> Tensor:
        """N x C scores of N uint8 images."""
        return self.head().scores(self.settings.training().extract(self.learned.network, images))

    def strangeness(self) -> Strangeness | None:
        """How strange images are to it; None where that cannot be told."""
        moments = moments_at_hand(self.learned.evidence)
        return None if moments is None or self.familiar is None else strangeness_of(moments, self.familiar)

    def states(self) -> tuple[tuple[str, ...], ...]:
        """The classes that were new in each state; states of which no class is left are left out."""
        first = self.learned.evidence.first_state_C.tolist()
        return tuple(
            tuple(n for n, f in zip(self.classes, first, strict=True) if f == state) for state in sorted(set(first))
        )

    def use(self, name: str) -> Model:
        """The same model with another head from the same trajectory: nothing is trained."""
        check_head(name, self.settings)
        return replace(
            self,
            settings=replace(
                self.settings, method=named_method(name, self.settings.memory, not self.settings.trainer.frozen)[0]
            ),
        )


def counts_of(model: Model) -> Mapping[str, int]:
    """Numbers that people ask for: classes, memory, exemplars, held-out images."""
    return {
        "classes": len(model.classes), "memory": model.settings.memory, "exemplars": len(model.exemplars.memory),
        "held_out": len(model.held_out.memory),
    }  # fmt: skip
