"""Take a class out of a classifier: its images, its rows, its statistics and its name. The backbone stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from scail.classifier.left_out import calibrated
from scail.classifier.model import Kept, Model, Seen, digests_of
from scail.exemplars import Memory
from scail.heads import Evidence
from scail.learner import Learned
from scail.moments import Moments
from scail.networks.cosine_linear import CosineLinear
from scail.networks.network import Network, empty_linear
from scail.networks.two_memories import TwoMemories

TRACES = (
    "The weights of the network, and rows of other classes that were learned against it, carry traces of it until the "
    "classifier is trained anew without it."
)


def what_is_left(model: Model) -> str:
    """What remains of a class in this model once it is forgotten, in words."""
    if not model.settings.pretrained:
        return TRACES
    if model.settings.keep == "features":
        return "Nothing of it is left: the model is as if it had never seen it."
    return (
        "Features of its images were not kept (the model was begun with `scail learn --keep moments`): they are still "
        "part of the Gram matrix, which slda, ridge and ranpac read. ncm reads nothing of them."
    )


def without_class(model: Model, name: str) -> Model:
    """The classifier without this class; labels are renumbered, and nothing is trained."""
    if name not in model.classes:
        raise ValueError(f"class {name!r} is not known; known are {', '.join(map(repr, model.classes[:10]))}")
    if len(model.classes) == 1:
        raise ValueError(f"class {name!r} is the only one: remove the whole model instead")
    label = model.classes.index(name)
    exemplars = _without_images(model.exemplars, label)
    learned = model.learned
    carried, seen = _carried(model, label)
    after = replace(
        model,
        classes=tuple(other for other in model.classes if other != name),
        learned=Learned(
            learned.network if model.settings.trainer.frozen else _without_row(learned.network, label),
            exemplars.memory,
            _evidence(learned.evidence, label, Moments.carried_in(carried)),
            carried,
        ),
        exemplars=exemplars,
        held_out=_without_images(model.held_out, label),
        history=tuple(_without_name(record, name) for record in model.history),
        accuracy=None,  # it was measured on images of this class too
        seen=seen,
        difference=model.difference and {c: found for c, found in model.difference.items() if c != name},
    )
    return calibrated(after)


def without_images(model: Model, digests: set[bytes]) -> Model:
    """The classifier without these images, by the hash of their content; its classes stay, even empty ones.

    Of a network that was trained, and of images whose features were not kept, what was learned of them stays.
    """
    evidence, seen, moments = model.learned.evidence, list[Seen](), model.learned.evidence.moments
    stay = _stay(model.exemplars, digests)[model.exemplars.memory.indices]  # evidence counts exemplars class by class
    gone = [(evidence.exemplar_features_ED[~stay], evidence.exemplar_labels_E[~stay])]
    for part in model.seen:
        out = torch.tensor([digest.numpy().tobytes() in digests for digest in part.digests_N], dtype=torch.bool)
        gone.append((part.features_ND[out], part.labels_N[out]))
        left = Seen(part.features_ND[~out], part.labels_N[~out], part.digests_N[~out])
        seen += [left] if len(left.labels_N) else []
    for features_ND, labels_N in gone[1:] if model.seen else gone:  # exemplars were seen: each counts once
        moments = moments and moments.without(features_ND, labels_N)
    fresh = ~same_rows(evidence.new_features_MD, torch.cat([features for features, _ in gone]))
    evidence = replace(
        evidence, moments=moments, exemplar_features_ED=evidence.exemplar_features_ED[stay],
        exemplar_labels_E=evidence.exemplar_labels_E[stay], new_features_MD=evidence.new_features_MD[fresh],
        new_labels_M=evidence.new_labels_M[fresh],
    )  # fmt: skip
    exemplars, held_out = (without_digests(kept, digests) for kept in (model.exemplars, model.held_out))
    carried = {**model.learned.carried, **(moments.to_carry() if moments else {})}
    learned = replace(model.learned, memory=exemplars.memory, evidence=evidence, carried=carried)
    return replace(model, learned=learned, exemplars=exemplars, held_out=held_out, seen=tuple(seen))


def same_rows(features_MD: Tensor, others_ND: Tensor) -> Tensor:
    """Per row whether it is one of the others, to the bit: features of one image come from one pass."""
    known = {row.tobytes() for row in others_ND.numpy()}
    return torch.tensor([row.tobytes() in known for row in features_MD.numpy()], dtype=torch.bool)


def _stay(kept: Kept, digests: set[bytes]) -> Tensor:
    """Per image whether it is none of these."""
    found = [digest not in digests for digest in digests_of(kept.images)]
    return torch.tensor(found, dtype=torch.bool)


def without_digests(kept: Kept, digests: set[bytes]) -> Kept:
    """The images that are none of these."""
    stay = _stay(kept, digests)
    return Kept.chosen(
        kept.images, Memory(kept.memory.budget, tuple(rows[stay[rows]] for rows in kept.memory.exemplars))
    )


def _carried(model: Model, label: int) -> tuple[dict[str, Tensor], tuple[Seen, ...]]:
    """What the trainer carries, and what was seen, without the class. Its features, where they are kept, are taken out
    of the Gram matrix, so that nothing of it is left."""
    carried = dict(model.learned.carried)
    left = []
    for seen in model.seen:
        its, others = seen.labels_N == label, seen.labels_N != label
        of_class = seen.features_ND[its].double()
        carried["gram_DD"] = carried["gram_DD"] - of_class.T @ of_class
        labels = _renumbered(seen.labels_N[others], label)
        left += [Seen(seen.features_ND[others], labels, seen.digests_N[others])] if len(labels) else []
    return model.settings.trainer.without_class(carried, label), tuple(left)


def _without_images(kept: Kept, label: int) -> Kept:
    left = tuple(rows for c, rows in enumerate(kept.memory.exemplars) if c != label)
    return Kept.chosen(kept.images, Memory(kept.memory.budget, left))


def _without_row(network: Network, label: int) -> Network:
    network = network.clone()
    left = _others(network.linear.out_features, label)
    if isinstance(network.linear, CosineLinear):
        network.linear = network.linear.only(left)
        return network
    if isinstance(network.backbone, TwoMemories):
        network.backbone = network.backbone.without(int(network.linear.weight[label].argmax()))
    network.linear = _only(network.linear, left)
    network.auxiliary = network.auxiliary and _only(network.auxiliary, left)
    return network


def _only(layer: nn.Linear, left: Tensor) -> nn.Linear:
    """A layer with these rows."""
    linear = empty_linear(layer.in_features, len(left))
    with torch.no_grad():
        linear.weight.copy_(layer.weight[left])
        linear.bias.copy_(layer.bias[left])
    return linear


def _others(count: int, label: int) -> Tensor:
    return torch.tensor([c for c in range(count) if c != label])


def _evidence(evidence: Evidence, label: int, moments: Moments | None) -> Evidence:
    """Rows of the other classes. If the newest state has no class left, the state before it is the current one."""
    left = _others(len(evidence.bias_C), label)
    per_class = {
        name: getattr(evidence, name)[left]
        for name in (
            "weight_CD", "bias_C", "initial_weight_CD", "initial_bias_C", "first_state_C", "train_count_C",
            "initial_score_C", "exemplar_score_C",
        )
    }  # fmt: skip
    state = int(per_class["first_state_C"][-1])
    exemplars = evidence.exemplar_labels_E != label
    exemplar_features, exemplar_labels = evidence.exemplar_features_ED[exemplars], evidence.exemplar_labels_E[exemplars]
    new = evidence.new_labels_M != label
    new_features, new_labels = evidence.new_features_MD[new], evidence.new_labels_M[new]
    if state < evidence.state:
        at = torch.isin(exemplar_labels, (evidence.first_state_C == state).nonzero().flatten())
        new_features, new_labels = exemplar_features[at], exemplar_labels[at]
    return Evidence(
        **per_class,
        moments=moments,
        top_score_S=evidence.top_score_S[: state + 1],
        exemplar_features_ED=exemplar_features,
        exemplar_labels_E=_renumbered(exemplar_labels, label),
        new_features_MD=new_features,
        new_labels_M=_renumbered(new_labels, label),
    )


def _renumbered(labels: Tensor, label: int) -> Tensor:
    return labels - (labels > label).long()


def _without_name(record: dict[str, Any], name: str) -> dict[str, Any]:
    """A line of the history that no longer knows the class."""
    names: dict[str, Any] = {key: [c for c in record[key] if c != name] for key in ("new", "more") if key in record}
    return {**record, **names}
