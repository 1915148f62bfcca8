"""Take back the last change of a model: what is kept for it, and how it comes back.

Kept are the numbers of the model before: its network, its evidence, its classes. Pictures are not: the memory of B
images is full of those of now. So a former exemplar comes back if it is still kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from scail.classifier.correcting import Corrected
from scail.classifier.left_out import calibrated
from scail.classifier.model import Kept, Model, digests_of
from scail.classifier.settings import Change
from scail.exemplars import Memory


@dataclass(frozen=True)
class Before:
    """A model before its last change, as far as it is kept."""

    model: Model
    gone: int = 0
    """Exemplars and held-out images that it had, and that are kept no more."""


def before_of(model: Model | None, after: Model) -> Before | None:
    """What to keep of a model that this one came from: everything but pictures that are kept no more."""
    if model is None:
        return None
    there = {digest for kept in (after.exemplars, after.held_out) for digest in digests_of(kept.images)}
    (exemplars, rows), (held_out, _) = (_still_there(kept, there) for kept in (model.exemplars, model.held_out))
    gone = (
        sum(len(kept.memory) for kept in (model.exemplars, model.held_out))
        - len(exemplars.memory)
        - len(held_out.memory)
    )
    evidence = model.learned.evidence
    evidence = replace(
        evidence, exemplar_features_ED=evidence.exemplar_features_ED[rows],
        exemplar_labels_E=evidence.exemplar_labels_E[rows],
    )  # fmt: skip
    learned = replace(model.learned, memory=exemplars.memory, evidence=evidence)
    return Before(replace(model, learned=learned, exemplars=exemplars, held_out=held_out), gone)


def _still_there(kept: Kept, there: set[bytes]) -> tuple[Kept, torch.Tensor]:
    """The images that are one of those; and which rows, class by class, they are."""
    of_image = [digest in there for digest in digests_of(kept.images)]
    stay = torch.tensor(of_image, dtype=torch.bool)
    left = Memory(kept.memory.budget, tuple(rows[stay[rows]] for rows in kept.memory.exemplars))
    return Kept.chosen(kept.images, left), stay[kept.memory.indices].nonzero().flatten()


def taken_back(model: Model, before: Before | None, change: Change | None) -> Corrected:
    """The model as it was before its last change; an error where that is not kept."""
    if before is None:
        raise ValueError(f"there is nothing to take back: {_why_not(model, change)}")
    found, said = before.model, f"the last {change} is taken back"
    if change == "learn" and model.history:
        last, new = model.history[-1], model.classes[len(found.classes) :]
        said += f": {last['images']} image(s)" + (f", and the classes {', '.join(new)}" if new else "")
    frozen = found.settings.trainer.frozen
    if before.gone:
        said += f"; {before.gone} picture(s) of the memory had made room for newer ones and are gone: "
        said += "answers do not hang on them" if frozen else "it will rehearse fewer until it learns again"
    return Corrected(found if frozen or not before.gone else calibrated(found), said)


def _why_not(model: Model, change: Change | None) -> str:
    if change == "forget":
        return "the last change was a forget, and nothing of what is forgotten is kept"
    if change == "undo":
        return "the last change was an undo, and only one change is kept"
    if model.calls == 1 and change == "learn":
        return "it has learned only once, and before there was no model; remove its folder instead"
    return "what it was before its last change was not kept"
