"""The same picture learned twice is one picture; learned again under another name, it is moved there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from scail.classifier.forgetting import without_images
from scail.classifier.model import Model, digest_of_pixels


@dataclass(frozen=True)
class FirstSeen:
    """What of a call's images is to be learned, and from which model on."""

    model: Model | None
    images: Tensor
    names: list[str]
    notes: tuple[str, ...]


def first_seen(model: Model | None, images: Tensor, names: Sequence[str]) -> FirstSeen:
    """Without pictures that were learned before, or stand twice in this call, under the same name.

    A picture that was learned under another name is taken back from there: the new name counts.
    """
    known = _known(model)
    digests = [digest_of_pixels(image).numpy().tobytes() for image in images]
    rows, moved, given = list[int](), set[bytes](), set[tuple[bytes, str]]()
    for row, (digest, name) in enumerate(zip(digests, names, strict=True)):
        if known.get(digest) == name or (digest, name) in given:
            continue
        given.add((digest, name))
        rows.append(row)
        if digest in known:
            moved.add(digest)
    notes = []
    if repeated := len(names) - len(rows):
        notes.append(f"{repeated} of {len(names)} images were learned before, or stand here twice: they count once")
    if moved and model is not None:
        was = sorted({known[digest] for digest in moved})
        notes.append(f"{len(moved)} images were learned as {', '.join(was[:5])}: they are moved to the names given now")
        model = without_images(model, moved)
    return FirstSeen(model, images[torch.tensor(rows, dtype=torch.int64)], [names[row] for row in rows], tuple(notes))


def _known(model: Model | None) -> dict[bytes, str]:
    """The name of every picture that was learned."""
    if model is None:
        return {}
    return {
        digest.numpy().tobytes(): model.classes[int(label)]
        for seen in model.seen
        for digest, label in zip(seen.digests_N, seen.labels_N, strict=True)
    }
