"""What a method costs after a state: of one prediction, and of what must be kept until the next state. All is counted.

Not counted as kept is the network itself: every method needs it, and its parameters stand beside. What it has for later
trainings alone is counted as kept, and not as its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import prod
from typing import Any, TypeVar, cast

from torch import Tensor, nn

from scail.benchmark.incremental import Step
from scail.benchmark.trajectory import Trajectory
from scail.heads import Evidence, LinearHead
from scail.learner import Learned
from scail.methods import head_of
from scail.moments import Moments
from scail.networks.network import describe_network

_KEPT = ("initial_weight_CD", "initial_bias_C", "first_state_C", "initial_score_C", "top_score_S")
"""What of the evidence is not worked out anew in each state: it was measured once, and kept."""
_MOMENTS = tuple(field.name for field in fields(Moments))

T = TypeVar("T")


class Costs:
    """Counts what the methods of a trajectory cost."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self._backbone: dict[int, dict[str, int]] = {}  # by its features: in every state the same, if it does not grow

    def head(self, method: str, step: Step) -> tuple[LinearHead, dict[str, int]]:
        """The head of a method after a state, and what the method costs then."""
        seen = set[str]()
        options = self.trajectory.configuration.experiment.heads
        methods = self.trajectory.table.methods
        head = head_of(method, options, _watched_learner(step.learned, seen), methods)
        backbone, (parameters, flops) = self._of_backbone(step), cost_of_head(head)
        return head, {
            "parameters": backbone["parameters"] + parameters,
            "flops": backbone["flops"] + flops,
            "bytes_kept": self._images_kept(step) + _values_kept(step.learned, seen),
            "image_passes": self._passes(step),
        }

    def _passes(self, step: Step) -> int:
        """Images that the training went through: of one that ended early, in proportion to its epochs."""
        k = step.state.index
        most, planned = self.trajectory.epochs[k], self.trajectory.passes[k]
        return min(planned, round(planned * step.epochs / most)) if most and step.epochs is not None else planned

    def _of_backbone(self, step: Step) -> dict[str, int]:
        """Parameters and operations of the network without its linear layer."""
        network = step.learned.network
        if network.feature_size not in self._backbone:
            _, height, width = self.trajectory.configuration.dataset.shape
            whole, linear = describe_network(network, height, width), network.linear
            others = [p for p in (*linear.parameters(), *network.kept) if isinstance(p, nn.Parameter)]
            self._backbone[network.feature_size] = {
                "parameters": whole["parameters"] - sum(p.numel() for p in others),
                "flops": whole["flops"] - 2 * linear.weight.numel(),
            }
        return self._backbone[network.feature_size]

    def _images_kept(self, step: Step) -> int:
        """Bytes of the exemplars as raw images; Full keeps all images there are."""
        dataset = self.trajectory.configuration.dataset
        all_of_them = self.trajectory.kind.at_once
        return prod(dataset.shape) * (len(dataset.train) if all_of_them else len(step.learned.memory))


def cost_of_head(head: LinearHead) -> tuple[int, int]:
    """Parameters of a head, and operations for one image: a multiplication and an addition for each weight."""
    tensors = [head.bias_C, head.past_factor_P]
    weights = int(head.weight_CD.count_nonzero()) if head.sparse else head.weight_CD.numel()
    flops = 2 * weights
    if head.candidates is not None and head.past > head.candidates and head.raw_weight_CD is not None:
        tensors += [head.raw_weight_CD, head.raw_bias_C]
        flops += 2 * head.raw_weight_CD[: head.past].numel()
    return weights + sum(tensor.numel() for tensor in tensors if tensor is not None), flops


def _values_kept(learned: Learned, seen: set[str]) -> int:
    """Bytes of what the head read and cannot be worked out anew, and of what the trainer carries on."""
    kept: list[Tensor] = [getattr(learned.evidence, name) for name in _KEPT if name in seen]
    carried: Mapping[str, Tensor] = learned.carried
    kept += [value for name, value in carried.items() if name not in _MOMENTS or name in seen]
    kept += learned.network.kept
    return sum(value.numel() * value.element_size() for value in kept)


def _watched_learner(learned: Learned, seen: set[str]) -> Learned:
    """The same learner, whose evidence notes in `seen` which of its values are read."""
    moments: Any = learned.evidence.moments
    if moments is not None:
        moments = _watched(moments, seen)
    plain: Evidence = replace(learned.evidence, moments=moments)
    return replace(learned, evidence=_watched(plain, seen))


def _watched(value: T, seen: set[str]) -> T:
    """A copy of a dataclass that notes which of its fields are read; the tensors are the very same."""
    names = {field.name for field in fields(value)}  # type: ignore[arg-type]

    def look(self: Any, name: str) -> Any:
        if name in names:
            seen.add(name)
        return object.__getattribute__(self, name)

    made: Any = object.__new__(type(type(value).__name__, (type(value),), {"__getattribute__": look}))
    made.__dict__.update(vars(value))
    return cast(T, made)
