"""Trainings by gradient descent, as numbers: how long, how fast, how the rate falls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

Decay = Literal["plateau", "steps", "cosine", "settle"]
DECAYS: tuple[Decay, ...] = get_args(Decay)
Optimizer = Literal["sgd", "adam"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)


@dataclass(frozen=True)
class Schedule:
    """One training: how long, how fast, and how the learning rate falls."""

    epochs: int
    """How many; with `passes` or decay `settle`, how many at most."""
    lr: float
    """The learning rate that it begins with."""
    batch_size: int
    """Images in a batch."""
    momentum: float = 0.9
    """Of the gradient, from 0 to below 1."""
    weight_decay: float = 5e-4
    """The penalty on large weights."""
    decay: Decay = "plateau"
    """plateau: divide when the training loss stops falling; steps: after given epochs; cosine: down to zero; settle:
    the full rate until the loss stops falling, then down to zero in a third of these epochs, and end."""
    divide_by: float = 10
    """plateau, steps: by how much the rate is divided."""
    patience: int = 10
    """plateau: how many epochs the mean training loss may fail to improve; settle: over how many it is looked at."""
    milestones: tuple[int, ...] = ()
    """steps: after how many epochs the rate is divided."""
    divide_by_state: bool = False
    """In state k, start at lr / (k + 1)."""
    weight_decay_states: int = 0
    """With Z here, weight_decay * Z / (k + 1) in state k, as in BiC's public code; 0: the same in all states;
    -1: Z is the number of states of the experiment."""
    passes: int = 0
    """At most so many images are gone through, the same one in each epoch counted anew; 0: `epochs` alone says."""
    gain: float = 0.0
    """settle: the loss falls as long as its mean over `patience` epochs is lower than before by this share."""
    window: int = 0
    """settle: it is looked at over more epochs, where `patience` epochs have fewer images than these."""
    micro_batch: int = 0
    """At most so many images go through the network at a time, where memory is short; 0: the whole batch."""
    sum_micro_batches: bool = False
    """As in the authors' public code: gradients of micro-batches are summed, not averaged; a last batch with fewer of
    them is dropped; and the plateau is judged by the last one's loss."""
    backbone_rate: float = 1.0
    """The backbone learns at so many times the rate of the linear layer: below 1, features move less."""
    distillation: tuple[float, ...] = ()
    """Weights of the terms that hold on to the previous network, in the order in which their trainer names them; none:
    its own."""

    pruned: float | None = None
    """PackNet: the share of the weights that a state has trained which it gives up again; None: its own."""
    critic_steps: int = 5
    """Image generators: steps of the critic for each step of the generator."""

    optimizer: Optimizer = "sgd"
    """sgd; or adam, whose first beta is `momentum` and whose second one is 0.999."""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}, expected 1 or more")
        if not 0 < self.lr < float("inf") or self.batch_size < 1:
            raise ValueError(f"lr {self.lr} and batch size {self.batch_size}: expected numbers above 0")
        if not 0 <= self.momentum < 1 or not 0 <= self.weight_decay < float("inf"):
            raise ValueError(
                f"momentum {self.momentum}, weight decay {self.weight_decay}: expected a momentum from 0 to below 1, "
                "and a decay of 0 or more"
            )
        if not self.divide_by > 0 or self.patience < 0 or self.weight_decay_states < -1:
            raise ValueError(
                f"divide by {self.divide_by}, patience {self.patience}, weight decay states "
                f"{self.weight_decay_states}: expected a number above 0 to divide by, and 0 or more of the others "
                "(-1 weight decay states: as many as the experiment has)"
            )
        if self.passes < 0 or self.window < 0 or not 0 <= self.gain < 1:
            raise ValueError(
                f"passes {self.passes}, window {self.window}, gain {self.gain}: expected numbers of 0 or more, and a "
                "gain below 1"
            )
        if self.decay not in DECAYS:
            raise ValueError(f"decay is {self.decay!r}, expected one of {', '.join(DECAYS)}")
        if any(epoch < 1 for epoch in self.milestones) or list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones are {self.milestones}: expected numbers of epochs, each above the one before")
        if self.micro_batch < 0 or self.sum_micro_batches > (self.micro_batch > 0):
            raise ValueError(
                f"micro batch is {self.micro_batch}, expected 0 or more images, and 1 or more where micro-batches are "
                "summed"
            )
        if not 0 < self.backbone_rate < float("inf"):
            raise ValueError(f"backbone rate is {self.backbone_rate}, expected a number above 0, as 0.1")
        if any(not 0 <= weight < float("inf") for weight in self.distillation):
            raise ValueError(f"distillation is {self.distillation}, expected weights of 0 or more")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer is {self.optimizer!r}, expected one of {', '.join(OPTIMIZERS)}")
        if self.pruned is not None and not 0 <= self.pruned < 1:
            raise ValueError(f"pruned is {self.pruned}, expected a share from 0 to below 1, as 0.75")
        if self.critic_steps < 1:
            raise ValueError(f"critic steps is {self.critic_steps}, expected 1 or more")

    def most_epochs(self, images: int) -> int:
        """How many epochs a training on so many images takes at most: one, where already that is too much.

        >>> Schedule(epochs=60, lr=0.1, batch_size=32, passes=10_000).most_epochs(400)
        25
        """
        return max(1, min(self.epochs, self.passes // max(1, images))) if self.passes else self.epochs

    def epochs_looked_at(self, images: int) -> int:
        """settle: over how many epochs of so many images the loss is looked at."""
        return max(1, self.patience, -(-self.window // max(1, images)))

    def weights(self, own: tuple[float, ...]) -> tuple[float, ...]:
        """The weights of a trainer's distillation terms, where these are its own; an error if there are others.

        >>> Schedule(epochs=1, lr=0.1, batch_size=32, distillation=(10.0,)).weights((5.0,))
        (10.0,)
        """
        if self.distillation and len(self.distillation) != len(own):
            raise ValueError(
                f"distillation has {len(self.distillation)} weights, expected {len(own)}, as "
                f"{'+'.join(f'{weight:g}' for weight in own)}"
            )
        return self.distillation or own

    def record(self) -> dict[str, Any]:
        """Every value by name, as keys of states and files have it; what 0.1 did not have, where it says something."""
        return {name: value for name, value in asdict(self).items() if name not in _LATER or value != _LATER[name]}


_LATER: dict[str, Any] = {
    "passes": 0, "gain": 0.0, "window": 0, "micro_batch": 0, "sum_micro_batches": False, "backbone_rate": 1.0,
    "distillation": (), "pruned": None, "critic_steps": 5, "optimizer": "sgd",
}  # fmt: skip
"""Values that schedules did not have in version 0.1, with what a record means that does not name them."""


class Schedules(Mapping[str, Schedule]):
    """The schedules of a recipe by name: each trainer says which of them it uses. Never changed once made."""

    def __init__(self, given: Mapping[str, Schedule] | None = None, **named: Schedule) -> None:
        self._by_name = {**(given or {}), **named}

    def __getitem__(self, name: str) -> Schedule:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __hash__(self) -> int:
        return hash(frozenset(self._by_name.items()))

    def __repr__(self) -> str:
        return f"Schedules({self._by_name})"

    @property
    def trainings(self) -> tuple[str, ...]:
        """Those of networks, on images. One named `..._correction` goes through stored scores only, FearNet's through
        features, and an image generator is trained beside: neither other batches nor the number of devices concern
        them."""
        beside = ("correction", "fearnet_base", "fearnet_sleep", "generator")
        return tuple(name for name in self if not name.endswith(beside))

    def but(self, changed: Iterable[tuple[str, str, Any]]) -> Schedules:
        """The same with other numbers: (name of the schedule, which number, its value); None leaves it as it is.

        >>> Schedules(first=Schedule(epochs=2, lr=0.1, batch_size=32)).but([("first", "epochs", 5)])["first"].epochs
        5
        """
        found = dict(self._by_name)
        for name, what, value in changed:
            if value is not None:
                one: dict[str, Any] = {what: value}
                found[name] = replace(found[name], **one)
        return Schedules(found)

    def scaled(self, times: int) -> Schedules:
        """For so many devices with a whole batch on each: batches and rates as many times as large.

        Where micro-batches are summed their sum grows with the batch, and the rate stays.
        """
        of = [(n, w) for n in self.trainings for w in ("lr", "batch_size")]
        numbers = [(n, w, getattr(self[n], w) * times) for n, w in of if w != "lr" or not self[n].sum_micro_batches]
        return self if times == 1 else self.but(numbers)

    def for_states(self, count: int) -> Schedules:
        """For an experiment of so many states: weight decays that go by their number know it."""
        of = [(name, "weight_decay_states", count) for name in self if self[name].weight_decay_states == -1]
        return self.but(of)

    def with_epochs(self, epochs: int | tuple[int, int] | None) -> Schedules:
        """Other numbers of epochs: of every training; or of those of a first state, and of the others. Image generators
        go through images too: they are among them."""
        first, later = epochs if isinstance(epochs, tuple) else (epochs, epochs)
        names = (*self.trainings, *(name for name in self if name == "generator"))
        return self.but((name, "epochs", first if "first" in name else later) for name in names)
