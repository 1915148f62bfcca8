"""How large the memory is: said as a number of images, a share of them, so many of each class, or bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

EXPECTED = "a number of images, a share as 2%, images of each class as 20/class, or bytes as 4MB"
_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_BYTES = re.compile(r"([0-9.]+) ?([kmg]i?b)", re.IGNORECASE)


@dataclass(frozen=True)
class MemorySize:
    """B."""

    images: int
    """Over all classes, once all of them are there."""
    per_class: int | None = None
    """Where each class keeps the same number from the start: how many. The memory then grows with the classes."""

    def after(self, classes: int) -> int:
        """How many images it holds when so many classes are known."""
        return self.images if self.per_class is None else self.per_class * classes

    @property
    def asked(self) -> int | str:
        """The shortest way to ask for it."""
        return self.images if self.per_class is None else f"{self.per_class}/class"


def memory_size(asked: int | str, train_images: int, classes: int, image_bytes: int) -> MemorySize:
    """What was asked for, as a number of images; shares and bytes are rounded down.

    >>> memory_size("0.5%", 10_000, 100, 3072).images, memory_size("20/class", 10_000, 100, 3072).images
    (50, 2000)
    >>> memory_size("1 MB", 10_000, 100, 3072)  # of images of 32 x 32 pixels in three colours
    MemorySize(images=325, per_class=None)
    """
    text = str(asked).strip()
    try:
        if text.endswith("/class"):
            each = int(text.removesuffix("/class"))
            size = MemorySize(each * classes, each)
        elif found := _BYTES.fullmatch(text):
            size = MemorySize(int(Fraction(found[1]) * _UNITS[found[2].lower()] / image_bytes))
        elif text.endswith("%"):
            size = MemorySize(_share(text, train_images))
        else:
            size = MemorySize(int(text))
    except (ValueError, ZeroDivisionError) as error:
        if str(error).startswith("memory"):
            raise
        raise ValueError(f"memory {asked!r}: expected {EXPECTED}") from None
    if size.images < 0:
        raise ValueError(f"memory is {asked}, expected 0 or more")
    return size


def _share(text: str, train_images: int) -> int:
    share = Fraction(text[:-1])
    if share > 100:
        raise ValueError(f"memory is {text}: more than all {train_images} training images; expected at most 100%")
    return int(share * train_images / 100)
