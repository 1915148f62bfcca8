"""Another frozen network under a model that has learned: what is kept as pictures is embedded again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scail.classifier.left_out import calibrated
from scail.classifier.model import Model, Seen
from scail.moments import Moments
from scail.networks.int8 import in_int8
from scail.networks.pretrained import PRETRAINED, start_network
from scail.runtime.seeds import generator_for
from scail.training.frozen_random import random_features


def embedded_again(model: Model, name: str, say: Callable[[str], None] = lambda text: None) -> Model:
    """The classifier on another pretrained network. It knows what its exemplars show, and no more.

    Features of the old network mean nothing to the new one, and of most images there is nothing else.
    """
    settings = model.settings
    if not settings.pretrained:
        raise ValueError(
            f"method {settings.method} has trained its network, which cannot be exchanged; begin a new model"
        )
    labels = model.exemplars.memory.labels
    images = model.exemplars.images[model.exemplars.memory.indices]
    if len(images) == 0:
        raise ValueError("no exemplars are kept (memory 0): there is nothing that another network could look at")
    network = start_network(name, PRETRAINED, settings.shape.channels)
    if model.learned.network.name.rpartition("+")[0]:  # random features behind it, as before
        draw = generator_for(settings.experiment.seed, "projection")
        network = network.projected(random_features(network.feature_size), draw)
    settings = replace(settings, experiment=settings.experiment.but(network=name, weights=PRETRAINED))
    if settings.int8:
        network = in_int8(network, images)  # what is at hand calibrates it
    features = settings.training().extract(network, images)
    moments, before = Moments.of(features, labels, len(model.classes)), model.learned.evidence.moments
    say(_lost(model, int(before.count_C.sum()) if before else 0, moments))
    new = labels >= model.learned.evidence.past
    evidence = replace(
        model.learned.evidence, moments=moments, exemplar_features_ED=features, exemplar_labels_E=labels,
        new_features_MD=features[new], new_labels_M=labels[new],
    )  # fmt: skip
    learned = replace(model.learned, network=network.eval(), evidence=evidence, carried=moments.to_carry())
    seen = (Seen.of(features, labels, images),) if settings.keep == "features" else ()
    return calibrated(replace(model, settings=settings, learned=learned, seen=seen))


def _lost(model: Model, learned: int, moments: Moments) -> str:
    """What it does not know any more, in words."""
    text = f"{moments.images} of {learned} learned images are kept as exemplars, and are embedded again"
    if learned > moments.images:
        text += "; the others are lost to the model: learn them again if you have them"
    empty = [name for name, count in zip(model.classes, moments.count_C.tolist(), strict=True) if count == 0]
    if empty:
        text += f"; {len(empty)} class(es) have no exemplar and cannot be predicted now: {', '.join(empty[:5])}"
    return text
