"""A larger or a smaller memory for a model that has learned."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from scail.classifier.correcting import Corrected
from scail.classifier.left_out import calibrated
from scail.classifier.model import Kept, Model, counts_of
from scail.classifier.settings import DEFAULT_SELECT, check_method
from scail.exemplars import Memory, places


def resized(model: Model, memory: int) -> Corrected:
    """The model with another B. Of a smaller one, each class keeps its best images; a larger one fills as it learns."""
    settings = model.settings
    if memory == settings.memory:
        raise ValueError(f"memory is {memory} images already")
    _, select = check_method(settings.method, memory)
    select = (settings.select or select or DEFAULT_SELECT) if memory else None
    settings = replace(settings, memory=memory, select=select)
    if settings.validation and not settings.held_out_places:
        raise ValueError(
            f"memory {memory}: with validation {settings.validation} there is no place for a held-out image"
        )
    exemplars, rows = _fitted(model.exemplars, settings.exemplar_places)
    held_out, _ = _fitted(model.held_out, settings.held_out_places)
    evidence = model.learned.evidence
    evidence = replace(
        evidence, exemplar_features_ED=evidence.exemplar_features_ED[rows],
        exemplar_labels_E=evidence.exemplar_labels_E[rows],
    )  # fmt: skip
    learned = replace(model.learned, memory=exemplars.memory, evidence=evidence)
    after = replace(model, settings=settings, learned=learned, exemplars=exemplars, held_out=held_out)
    gone = len(model.exemplars.memory) + len(model.held_out.memory) - len(exemplars.memory) - len(held_out.memory)
    said = f"memory of {memory} images, before {model.settings.memory}; "
    said += f"{gone} images were let go" if gone else "it fills with what is learned from now on"
    if gone and not settings.trainer.frozen:
        after = calibrated(after)
    counts = counts_of(after)
    return Corrected(after, f"{said}; {counts['exemplars'] + counts['held_out']} are kept")


def _fitted(kept: Kept, budget: int) -> tuple[Kept, Tensor]:
    """As many images as there are places, the best of each class; and which of those before they are."""
    allowed = places(budget, len(kept.memory.exemplars))
    before = kept.memory.indices.argsort()
    memory = Memory(budget, tuple(rows[:n] for rows, n in zip(kept.memory.exemplars, allowed, strict=True)))
    if budget >= kept.memory.budget:
        memory = Memory(budget, kept.memory.exemplars)
    return Kept.chosen(kept.images, memory), before[memory.indices]
