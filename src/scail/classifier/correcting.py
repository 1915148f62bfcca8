"""Put a model right: another name for a class, another class for pictures, single pictures out.

Nothing is trained. Where the network is frozen and features are kept, which is the default, each is exact: the model is
as if it had learned it so from the beginning.

Shapes: N images, D features.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scail.classifier.forgetting import TRACES, same_rows, without_class, without_images
from scail.classifier.inputs import class_names_of, images_of
from scail.classifier.left_out import calibrated
from scail.classifier.lesson import Circumstances, lesson_of, next_state
from scail.classifier.model import MOST_HISTORY, Kept, Model, Seen, digests_of
from scail.classifier.repeats import first_seen, known_pictures
from scail.exemplars import Memory
from scail.heads import Evidence
from scail.runtime.devices import PlainCpu


@dataclass(frozen=True)
class Corrected:
    """A model that was put right, and what came of it, in words."""

    model: Model
    said: str


def renamed(model: Model, old: str, new: str) -> Corrected:
    """The model with another name for a class; all else stays as it is."""
    _check_class(model, old)
    (new,) = class_names_of([new])
    if new == old:
        raise ValueError(f"class {old!r} has this name already")
    if new in model.classes:
        raise ValueError(f"there is a class {new!r} already; to join the two, relabel the pictures of {old!r}")

    def other(name: str) -> str:
        return new if name == old else name

    def in_record(record: dict[str, Any]) -> dict[str, Any]:
        return {**record, **{key: [*map(other, record[key])] for key in ("new", "more") if key in record}}

    after = replace(
        model,
        classes=tuple(map(other, model.classes)),
        history=tuple(map(in_record, model.history)),
        difference=model.difference and {other(name): counts for name, counts in model.difference.items()},
    )
    return Corrected(_noted(after, "rename", new, 0), f"{old!r} is now {new!r}")


def relabelled(model: Model, images: Tensor, name: str, names: Sequence[str] = ()) -> Corrected:
    """The model with these pictures, which it has learned, under another name. `names`: what they are called in errors.

    A name that is new becomes a class where the network is frozen and features are kept.
    """
    (name,) = class_names_of([name])
    of_digest = _learned_as(model, images, names)
    if all(known == {name} for known in of_digest.values()):
        raise ValueError(f"these pictures are {name!r} already")
    was = sorted(set[str]().union(*of_digest.values()) - {name})
    if name in model.classes:
        after = calibrated(_moved(model, set(of_digest), model.classes.index(name)))
    elif model.settings.trainer.frozen and model.settings.keep == "features":
        fresh = first_seen(model, images, [name] * len(images))
        lesson = lesson_of(fresh.model, model.settings, fresh.images, fresh.names)
        after = next_state(fresh.model, model.settings, lesson, Circumstances(PlainCpu()))  # type: ignore[arg-type]
        after = replace(after, calls=model.calls, history=model.history)
    else:
        raise ValueError(
            f"class {name!r} is not known; known are {', '.join(map(repr, model.classes[:10]))}. To make a new class, "
            "learn these pictures under its name"
        )
    said = f"{len(of_digest)} picture(s) moved from {', '.join(was)} to {name}"
    if model.learned.evidence.moments is None:
        said += "; its network was trained on them as they were, and takes the new name up in the next learn"
    emptied = [other for other, count in _counts(after).items() if count == 0 and other in was]
    if emptied:
        said += f"; {', '.join(emptied)} has no picture left and cannot be predicted: forget it, or learn more of it"
    after = replace(after, accuracy=None, difference=None)  # measured with the old names
    return Corrected(_noted(after, "relabel", name, len(of_digest)), said)


def without_pictures(model: Model, name: str, images: Tensor, names: Sequence[str] = ()) -> Corrected:
    """The model without these pictures of a class. `names`: what they are called in errors."""
    return without_kept(model, name, pictures_of(model, name, images, names))


def pictures_of(model: Model, name: str, images: Tensor, names: Sequence[str] = ()) -> set[bytes]:
    """The hashes of these pictures, which were learned under this name and no other; else an error."""
    _check_class(model, name)
    of_digest = _learned_as(model, images, names)
    if others := sorted(set[str]().union(*of_digest.values()) - {name}):
        raise ValueError(f"some of these pictures were learned as {others[0]!r}, not as {name!r}: forget those apart")
    return set(of_digest)


def told(images: Any) -> list[str]:
    """What images are called in errors: files by their paths, others by their number."""
    return [str(image) if isinstance(image, str | Path) else f"number {i}" for i, image in enumerate(images_of(images))]


def without_kept(model: Model, name: str, digests: set[bytes]) -> Corrected:
    """The same by the hashes of the pictures, all of this class."""
    after = without_images(model, digests)
    if model.seen and _counts(after)[name] == 0:
        raise ValueError(f"these are all pictures of {name!r}: forget the class itself instead")
    said = f"{len(digests)} picture(s) of {name!r} are forgotten"
    if model.learned.evidence.moments is None:
        said += f": they are kept and rehearsed no more. {TRACES.replace('the classifier is', 'it is')}"
    return Corrected(replace(calibrated(after), accuracy=None, difference=None), said)


def without_missing(model: Model, name: str, digests: set[bytes]) -> Corrected:
    """The same of pictures that somebody has deleted: where they were all that the class had, it is forgotten."""
    if model.seen and _counts(without_images(model, digests))[name] == 0:
        return Corrected(without_class(model, name), f"{name!r} has no other picture: the class is forgotten")
    return without_kept(model, name, digests)


def _check_class(model: Model, name: str) -> None:
    if name not in model.classes:
        raise ValueError(f"class {name!r} is not known; known are {', '.join(map(repr, model.classes[:10]))}")


def _learned_as(model: Model, images: Tensor, names: Sequence[str]) -> dict[bytes, set[str]]:
    """By the hash of each picture, the names that it was learned under; an error if that is not known of one."""
    known, found, missing = known_pictures(model), dict[bytes, set[str]](), list[int]()
    for i, digest in enumerate(digests_of(images)):
        if digest in known:
            found[digest] = known[digest]
        else:
            missing.append(i)
    if missing:
        first = names[missing[0]] if names else f"number {missing[0]}"
        how = (
            "were never learned" if model.seen else "are not among those that are kept, and of others it has no picture"
        )
        raise ValueError(
            f"{len(missing)} of {len(images)} pictures {how}, the first: {first}. Expected the very files that were "
            "learned, or pictures out of the model's folder exemplars; nothing is changed"
        )
    return found


def _counts(model: Model) -> dict[str, int]:
    """Per class how many pictures are known of it."""
    moments = model.learned.evidence.moments
    counts = moments.count_C.tolist() if moments else [len(rows) for rows in model.exemplars.memory.exemplars]
    return dict(zip(model.classes, counts, strict=True))


def _noted(model: Model, change: str, name: str, images: int) -> Model:
    """With a line in the history."""
    record: dict[str, Any] = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "change": change, "new": [], "more": [name], "images": images,
        "epochs": 0, "seconds": 0.0, "method": model.settings.method, "accuracy": None,
    }  # fmt: skip
    return replace(model, history=(*model.history, record)[-MOST_HISTORY:])


def _moved(model: Model, digests: set[bytes], label: int) -> Model:
    """The model with these pictures in the class with this label, each once."""
    before, now = model.exemplars, _kept_moved(model.exemplars, digests, label)
    place = torch.empty(len(before.images), dtype=torch.int64)
    place[before.memory.indices] = torch.arange(len(before.memory))
    rows = place[now.memory.indices]
    evidence = model.learned.evidence
    moving = (evidence.exemplar_labels_E != label) & ~torch.isin(torch.arange(len(before.memory)), rows)
    moving[rows] |= evidence.exemplar_labels_E[rows] != now.memory.labels
    features_ND, labels_N = evidence.exemplar_features_ED[moving], evidence.exemplar_labels_E[moving]
    seen, moments = model.seen, evidence.moments
    if seen:
        seen, twice = _seen_moved(seen, digests, label)
        old = [(old.features_ND, old.labels_N, _is_one_of(old.digests_N, digests)) for old in model.seen]
        features_ND, labels_N = (torch.cat([part[i][part[2]] for part in old]) for i in (0, 1))
        elsewhere = labels_N != label
        features_ND, labels_N = features_ND[elsewhere], labels_N[elsewhere]
        moments = moments and moments.moved(features_ND, labels_N, label)
        moments = moments and moments.without(twice, torch.full((len(twice),), label))
    elif moments:
        moments = moments.moved(features_ND, labels_N, label)
    evidence = _new_moved(evidence, features_ND, label)
    evidence = replace(
        evidence, moments=moments, exemplar_features_ED=evidence.exemplar_features_ED[rows],
        exemplar_labels_E=now.memory.labels,
    )  # fmt: skip
    exemplars, held_out = Kept.chosen(now.images, now.memory), _kept_moved(model.held_out, digests, label)
    carried = {**model.learned.carried, **(moments.to_carry() if moments else {})}
    learned = replace(model.learned, memory=exemplars.memory, evidence=evidence, carried=carried)
    held_out = Kept.chosen(held_out.images, held_out.memory)
    return replace(model, learned=learned, exemplars=exemplars, held_out=held_out, seen=seen)


def _kept_moved(kept: Kept, digests: set[bytes], label: int) -> Kept:
    """Pictures that move stand last in their new class: those that were there are the better ones."""
    of_image = digests_of(kept.images)
    there = {of_image[row] for row in kept.memory.exemplars[label].tolist()} if len(kept.memory.exemplars) else set()
    exemplars, moving = list[Tensor](), list[int]()
    for c, rows in enumerate(kept.memory.exemplars):
        goes = torch.tensor([c != label and of_image[row] in digests for row in rows.tolist()], dtype=torch.bool)
        for row in rows[goes].tolist():
            if of_image[row] not in there:
                there.add(of_image[row])
                moving.append(row)
        exemplars.append(rows[~goes])
    if moving:
        exemplars[label] = torch.cat([exemplars[label], torch.tensor(moving)])
    return Kept(kept.images, Memory(kept.memory.budget, tuple(exemplars)))


def _seen_moved(seen: Sequence[Seen], digests: set[bytes], label: int) -> tuple[tuple[Seen, ...], Tensor]:
    """The same of what was seen as numbers; and the features of those that would then stand there twice."""
    there = {digest.numpy().tobytes() for part in seen for digest in part.digests_N[part.labels_N == label]}
    parts, twice = list[Seen](), [torch.empty(0, seen[0].features_ND.shape[1])]
    for part in seen:
        labels, stay = part.labels_N.clone(), torch.ones(len(part.labels_N), dtype=torch.bool)
        for row in (_is_one_of(part.digests_N, digests) & (labels != label)).nonzero().flatten().tolist():
            digest = part.digests_N[row].numpy().tobytes()
            stay[row] = digest not in there
            there.add(digest)
            labels[row] = label
        twice.append(part.features_ND[~stay])
        changed = not bool(stay.all()) or not torch.equal(labels, part.labels_N)
        parts.append(Seen(part.features_ND[stay], labels[stay], part.digests_N[stay]) if changed else part)
    return tuple(part for part in parts if len(part.labels_N)), torch.cat(twice)


def _is_one_of(digests_N: Tensor, digests: set[bytes]) -> Tensor:
    return torch.tensor([digest.numpy().tobytes() in digests for digest in digests_N], dtype=torch.bool)


def _new_moved(evidence: Evidence, features_ND: Tensor, label: int) -> Evidence:
    """Images of the newest classes that are at hand: without those that move away, with those that come."""
    stay = ~same_rows(evidence.new_features_MD, features_ND)
    features, labels = [evidence.new_features_MD[stay]], [evidence.new_labels_M[stay]]
    if label >= evidence.past:
        features.append(features_ND)
        labels.append(torch.full((len(features_ND),), label))
    return replace(evidence, new_features_MD=torch.cat(features), new_labels_M=torch.cat(labels))
