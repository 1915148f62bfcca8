"""What a classifier is about to learn, in words, and how long it will take."""

from __future__ import annotations

import torch

from scail.classifier.left_out import left_out
from scail.classifier.lesson import Lesson
from scail.classifier.model import Model
from scail.classifier.settings import Settings
from scail.methods import METHODS
from scail.networks.network import create_network, describe_network
from scail.networks.timing import duration, seconds_per_image
from scail.runtime.seeds import generator_for

_WORST = 5  # classes that are named


def notes_on(lesson: Lesson, settings: Settings) -> list[str]:
    """What people should know before it is learned."""
    notes = []
    recipe = settings.experiment.recipe
    if lesson.known == 0 and settings.pretrained:
        label, bits = METHODS[settings.method].label, ", in 8 bits" if settings.int8 else ""
        notes.append(f"network: {recipe.network}, pretrained and frozen{bits}; {label} tells its features apart")
    if lesson.new_classes:
        notes.append(f"{len(lesson.new_classes)} new class(es), {len(lesson.new)} images: {_some(lesson.new_classes)}")
    if lesson.seen_again:
        kept = "which pictures of them are kept is decided anew" if settings.exemplar_places else "none of it is kept"
        how = f"trained on now, beside the new classes; {kept}"
        if settings.trainer.frozen:
            how = "they count like all others of their class"
        of = f"{len(lesson.more)} more images of {len(lesson.seen_again)} known class(es), {_some(lesson.seen_again)}"
        notes.append(f"{of}: {how}")
        if not settings.trainer.heeds_labels:
            gains = "; what reads the exemplars (icarl, icarl_duet) gains by them" if settings.exemplar_places else ""
            label = METHODS[settings.method].label
            notes.append(f"{label} learns to say of these images what it said before, whatever their label{gains}")
    if len(lesson.classes) == 1:
        notes.append("only one class is known: there is nothing to tell it apart from yet")
    if settings.trainer.holds_out and lesson.new_classes and settings.exemplar_places <= lesson.known > 0:
        notes.append(
            f"{METHODS[settings.method].label}: no past class has two exemplars: none can be held out, and nothing is "
            "corrected"
        )
    if 0 < settings.exemplar_places < len(lesson.classes):
        places = settings.exemplar_places
        notes.append(f"memory for {places} exemplars and {len(lesson.classes)} classes: the earliest {places} keep one")
    return notes


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def how_good(model: Model) -> list[str]:
    """How well learned images are classified when they are left out: in all, and the worst classes."""
    found = left_out(model)
    if found is None or len(model.classes) == 1:  # one class is always right
        return []
    accuracy, classes = found.accuracy, found.of_classes(model.classes)
    text = f"left out one by one, {accuracy['images']} learned images: top-1 {accuracy['top1']:.1f} %"
    if len(model.classes) > 5:
        text += f", top-5 {accuracy['top5']:.1f} %"
    worst = [f"{name} {right} of {images}" for name, (images, right) in classes.items() if right < images]
    if worst:
        more = f", and {len(worst) - _WORST} more" if len(worst) > _WORST else ""
        text += f"; worst classes: {', '.join(worst[:_WORST])}{more}"
    return [text]


def estimate(model: Model | None, settings: Settings, lesson: Lesson, device: str, precision: str) -> str:
    """How long this will take, from a few steps that are measured now."""
    experiment, shape = settings.experiment, settings.shape
    network = create_network(
        experiment.recipe.network, shape.channels, len(lesson.classes), generator_for(0, "described")
    )
    flops = describe_network(network, shape.height, shape.width)["flops"]
    images = len(lesson.new) + len(lesson.more) + (len(model.exemplars.images) if model else 0)
    epochs = settings.training().epochs(model.calls if model else 0, images)
    each, _ = seconds_per_image(
        experiment.recipe.network, (shape.channels, shape.height, shape.width), flops, torch.get_num_threads(),
        device, precision,
    )  # fmt: skip
    return f"up to {epochs} epochs of {images} images: up to {duration(each * images * epochs)}, in {precision}"
