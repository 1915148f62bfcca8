"""The table of methods: each is a trainer, and a head read from its trajectory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from scail import heads
from scail.heads import Evidence, LinearHead
from scail.recipes import Experiment


@dataclass(frozen=True)
class Method:
    """One named method."""

    label: str
    """Its name in the paper."""
    summary: str
    head: Callable[..., LinearHead]
    trainer: Literal["fine_tune", "joint"] = "fine_tune"
    needs_exemplars: bool = False
    """Cannot do without a memory."""
    options: tuple[str, ...] = ()
    """Settings of the experiment that the head takes."""


METHODS: dict[str, Method] = {
    "ft": Method("FT", "fine tuning: the layer as it is", heads.ft),
    "ft_nem": Method("FT^NEM", "nearest exemplar mean in FT's features", heads.ft_nem, needs_exemplars=True),
    "ft_l2": Method("FT^L2", "rows of FT's layer scaled to unit length", heads.ft_l2),
    "ft_init": Method("FT_init", "past classes get their initial classifiers back", heads.ft_init),
    "ft_init_l2": Method("FT_init^L2", "FT_init with rows of unit length", heads.ft_init_l2),
    "scail": Method(
        "ScaIL", "initial classifiers scaled to the statistics of the new classes", heads.scail,
        options=("candidates", "as_published"),
    ),
    "full": Method("Full", "one training on all classes with all data: the reference", heads.ft, "joint"),
}  # fmt: skip


def choose_methods(names: tuple[str, ...], memory: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods that `names` asks for ("all": every one that this memory allows), and notes on those left out."""
    unknown = [name for name in names if name != "all" and name not in METHODS]
    if unknown or not names:
        raise ValueError(f"unknown method {', '.join(unknown) or '(none)'}; known: all, {', '.join(METHODS)}")
    without = [name for name in METHODS if METHODS[name].needs_exemplars and memory == 0]
    named = [name for name in names if name in without]
    if named:
        raise ValueError(f"method {named[0]} needs exemplars, but memory is 0; leave it out or give it a memory")
    chosen = tuple(name for name in METHODS if name in names or ("all" in names and name not in without))
    notes = tuple(f"{METHODS[name].label} is left out: it needs exemplars, and memory is 0" for name in without)
    return chosen, notes if "all" in names else ()


def head_of(name: str, experiment: Experiment) -> Callable[[Evidence], LinearHead]:
    """The head of this method, with the experiment's settings for it."""
    method = METHODS[name]
    return partial(method.head, **{option: getattr(experiment, option) for option in method.options})
