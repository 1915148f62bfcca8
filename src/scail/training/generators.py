"""Generators: the image generators of all states that a learner carries on, and how well their images are recognised.

Each is trained once, on the real images of the classes that were new in its state. None ever learns from what it, or
another one, has made up: nothing drifts.

Shapes: C classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from scail.networks.image_generator import MOST_SIDE, ImageGenerator, ImageShape, image_generator
from scail.runtime.seeds import generator_for
from scail.training.trainer import check_shapes

_ROWS = ("generator_C", "column_C", "recognised_C")
_OF_CLASSES = (".start.weight", ".scale.weight", ".shift.weight")
_MOST_CHANNELS, _MOST_BASE = 16, 1024


@dataclass(frozen=True)
class Generators:
    """All that is kept of them. Weights have 16 bits."""

    generator_C: Tensor
    """Which generator makes images of each class."""
    column_C: Tensor
    """As which of its classes."""
    recognised_C: Tensor
    """Share of the images it makes of a class that the network took for that class in the state in which it was new."""
    image_shape: Tensor
    """Channels, height, width of the images, and how wide the generators are."""
    weights: Mapping[str, Tensor]
    """Of all generators, by their numbers: `generator_0.first.weight`."""

    @classmethod
    def carried_in(cls, carried: Mapping[str, Tensor]) -> Self | None:
        """Those that a trainer carries; None: it carries none."""
        if "generator_C" not in carried:
            return None
        weights = {name: value for name, value in carried.items() if name.startswith("generator_") and "." in name}
        return cls(**{name: carried[name] for name in (*_ROWS, "image_shape")}, weights=weights)

    def to_carry(self) -> dict[str, Tensor]:
        """The same by their names."""
        return {name: getattr(self, name) for name in (*_ROWS, "image_shape")} | {**self.weights}

    @classmethod
    def with_newest(cls, before: Self | None, made: ImageGenerator, recognised: Tensor) -> Self:
        """Those of before, and this one for so many new classes more."""
        new, count = torch.arange(len(recognised)), 0 if before is None else before.count
        own = {f"generator_{count}.{name}": _stored(value) for name, value in made.state_dict().items()}
        rows = dict(zip(_ROWS, (torch.full_like(new, count), new, recognised), strict=True))
        if before is None:
            return cls(**rows, image_shape=torch.tensor(made.shape), weights=own)
        rows = {name: torch.cat([getattr(before, name), row]) for name, row in rows.items()}
        return replace(before, **rows, weights={**before.weights, **own})

    @property
    def count(self) -> int:
        """One more than the number of the newest."""
        return max((int(name.partition(".")[0].partition("_")[2]) for name in self.weights), default=-1) + 1

    @property
    def shape(self) -> ImageShape:
        """What the images are."""
        return ImageShape(*self.image_shape.tolist())

    def one(self, number: int) -> ImageGenerator:
        """The generator of this number."""
        prefix = f"generator_{number}."
        own = {n.removeprefix(prefix): value for n, value in self.weights.items() if n.startswith(prefix)}
        made = image_generator(self.shape, len(own["norms.0.scale.weight"]))
        made.load_state_dict(own)
        return made.requires_grad_(False).eval()

    def drawn(self, counts: Sequence[int], seed: int, *purpose: int | str) -> tuple[Tensor, Tensor]:
        """So many images of each class, class by class, and their labels."""
        images, labels = [torch.empty(0, *self.shape[:3], dtype=torch.uint8)], [torch.empty(0, dtype=torch.int64)]
        known: dict[int, ImageGenerator] = {}
        for label, count in enumerate(counts):
            if count:
                number = int(self.generator_C[label])
                known[number] = known[number] if number in known else self.one(number)
                draw = generator_for(seed, "generated", label, *purpose)
                images.append(known[number].drawn(self.column_C[label].expand(count), draw))
                labels.append(torch.full((count,), label))
        return torch.cat(images), torch.cat(labels)

    def without(self, label: int) -> Self:
        """Without a class: its rows go; and its generator, where it makes no other class."""
        left = torch.arange(len(self.generator_C)) != label
        number, column = int(self.generator_C[label]), int(self.column_C[label])
        rows = {name: getattr(self, name)[left] for name in _ROWS}
        prefix, weights = f"generator_{number}.", dict(self.weights)
        for name in [name for name in weights if name.startswith(prefix)]:
            if not bool((rows["generator_C"] == number).any()):
                del weights[name]
            elif name.endswith(_OF_CLASSES):
                weights[name] = weights[name].clone()
                weights[name][column] = 0
        return replace(self, **rows, weights=weights)

    @classmethod
    def check(cls, carried: Mapping[str, Tensor], classes: int) -> None:
        """A ValueError where these are not the generators of so many classes."""
        check_shapes(carried, {**dict.fromkeys(_ROWS, (classes,)), "image_shape": (4,)})
        for name in (*_ROWS[:2], "image_shape"):
            if carried[name].dtype != torch.int64:
                raise ValueError(f"{name} is of {carried[name].dtype}, expected {torch.int64}")
        most = ImageShape(_MOST_CHANNELS, MOST_SIDE, MOST_SIDE, _MOST_BASE)
        sizes = carried["image_shape"].tolist()
        if not all(1 <= size <= limit for size, limit in zip(sizes, most, strict=True)):
            raise ValueError(f"image_shape is {sizes}, expected numbers from 1 to {[*most]}")
        found = cls.carried_in(carried)
        assert found is not None
        for number in found.generator_C.unique().tolist():
            columns = found.column_C[found.generator_C == number]
            try:
                made = found.one(number)
            except (KeyError, RuntimeError) as error:
                raise ValueError(f"generator_{number}: not the weights of a generator ({str(error)[:200]})") from error
            if not 0 <= int(columns.min()) <= int(columns.max()) < made.classes:
                raise ValueError(f"column_C: generator {number} has no class {int(columns.max())}")
        numbers = {f"generator_{number}" for number in found.generator_C.tolist()}
        if strange := {name.partition(".")[0] for name in found.weights} - numbers:
            raise ValueError(f"{min(strange)}: a generator of no class")


def _stored(value: Tensor) -> Tensor:
    """Weights in 16 bits; what there is little of as it is."""
    value = value.detach().cpu()
    return value.half() if value.ndim > 1 else value.clone()


def recognised_share(carried: Mapping[str, Tensor]) -> float | None:
    """Percent of generated images, over all classes, that were recognised when their class was new; None: none are."""
    shares = carried.get("recognised_C")
    return None if shares is None or len(shares) == 0 else round(100 * float(shares.mean()), 4)
