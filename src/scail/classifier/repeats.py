"""The same picture learned twice is one picture; learned again under another name, it is moved there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from scail.classifier.forgetting import without_images
from scail.classifier.model import Model, digests_of


@dataclass(frozen=True)
class FirstSeen:
    """What of a call's images is to be learned, and from which model on."""

    model: Model | None
    images: Tensor
    names: list[str]
    notes: tuple[str, ...]


def first_seen(model: Model | None, images: Tensor, names: Sequence[str]) -> FirstSeen:
    """Without pictures that were learned before, or stand twice in this call, under the same name.

    A picture that was learned under other names only is taken back from there: the new name counts. One that is held
    out to measure with stays so.
    """
    known, now = known_pictures(model), dict[bytes, set[str]]()
    digests = digests_of(images)
    for digest, name in zip(digests, names, strict=True):
        now.setdefault(digest, set()).add(name)
    moved = {digest for digest in known.keys() & now.keys() if not known[digest] & now[digest]}
    given = {(digest, name) for digest in known.keys() - moved for name in known[digest]}
    rows = list[int]()
    for row, pair in enumerate(zip(digests, names, strict=True)):
        if pair not in given:
            given.add(pair)
            rows.append(row)
    notes = []
    if several := [digest for digest in now if len(now[digest]) > 1]:
        names_of = ", ".join(sorted(now[several[0]])[:5])
        notes.append(
            f"{len(several)} pictures stand here under several names, the first under {names_of}: they are learned as "
            "each; forget or relabel those that are wrong"
        )
    if repeated := len(names) - len(rows):
        notes.append(f"{repeated} of {len(names)} images were learned before, or stand here twice: they count once")
    if moved and model is not None:
        was = sorted(set[str]().union(*(known[digest] for digest in moved)))
        notes.append(f"{len(moved)} images were learned as {', '.join(was[:5])}: they are moved to the names given now")
        model = without_images(model, moved)
    if repeated:
        images = images[torch.tensor(rows, dtype=torch.int64)]
    return FirstSeen(model, images, [names[row] for row in rows], tuple(notes))


def known_pictures(model: Model | None) -> dict[bytes, set[str]]:
    """The names of every picture that was learned or is held out, as far as that is kept; one may have several."""
    found = dict[bytes, set[str]]()
    if model is None:
        return found
    for seen in model.seen:
        for digest, label in zip(seen.digests_N, seen.labels_N.tolist(), strict=True):
            found.setdefault(digest.numpy().tobytes(), set()).add(model.classes[label])
    for kept in (model.held_out,) if model.seen else (model.held_out, model.exemplars):
        digests = digests_of([kept.images[row] for row in kept.memory.indices.tolist()])
        for digest, label in zip(digests, kept.memory.labels.tolist(), strict=True):
            found.setdefault(digest, set()).add(model.classes[label])
    return found
