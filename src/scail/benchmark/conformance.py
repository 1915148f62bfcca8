"""What every method has to keep: tried on six digits in three states, for the methods of a file of one's own.

A head is a pure function that scores every class. A trainer gives the same bits from the same seed, after an
interruption too, and the same network on two devices; whatever changes its result stands in its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Step, Watch, steps_of
from scail.benchmark.trajectory import Trajectory, trajectories_in
from scail.benchmark.two_ranks import differing_on_two_ranks
from scail.config import Experiment
from scail.config.recipes import quick
from scail.heads.evidence import TENSORS
from scail.methods import head_of
from scail.methods.own_methods import OwnMethods
from scail.methods.probe import check_scores
from scail.runtime.devices import fabric_of
from scail.storage.store import Store
from scail.training import Interrupted

Walked = list[tuple[Trajectory, list[Step]]]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what is wrong with it; None: nothing is."""

    what: str
    problem: str | None


def findings_on(own: OwnMethods, place: Path) -> Iterator[Finding]:
    """Everything that is looked at, one after the other; `place` is a folder for states."""
    experiment = _small(own)
    walked = _walk(experiment, place / "first")
    for name in own.methods:
        yield Finding(f"{name}: pure, the same twice, every class can be predicted", _heads(name, own, walked))
    yield Finding("same seed, same bits", _told(partial(_same_bits, experiment, place, walked)))
    without = tuple(name for name, method in own.methods.items() if not method.needs_exemplars)
    if without:
        what = f"without a memory: {', '.join(without)}"
        yield Finding(what, _told(partial(_without_memory, own, experiment.but(memory=0, methods=without), place)))
    if not own.trainers:
        return
    yield Finding("goes on after an interruption, to the bit", _told(partial(_goes_on, experiment, place, walked)))
    for name in own.trainers:
        alone = experiment.but(methods=tuple(m for m, of in own.methods.items() if of.trainer_name == name))
        yield Finding(f"{name}: settings has what decides", _told(partial(_settings, alone, place / name)))
    yield Finding("same on two ranks", _told(partial(differing_on_two_ranks, experiment, place / "ranks")))


def _small(own: OwnMethods) -> Experiment:
    """All of its methods, in about a second."""
    base = quick("digits").but(
        classes=6, images_per_class=20, states=3, memory=12, own_methods=(own.place,), methods=tuple(own.methods),
        accelerator="cpu", precision="32-true",
    )  # fmt: skip
    schedules = [(name, "lr", schedule.lr / 4) for name, schedule in base.recipe.schedules.items()]
    lower = base.recipe.schedules.with_epochs((2, 2)).but([*schedules, ("bic_correction", "epochs", 5)])
    return base.but(**{f"{name}_schedule": schedule for name, schedule in lower.items()})


def _walk(experiment: Experiment, place: Path, stop_asked: Callable[[], bool] = lambda: False) -> Walked:
    """All states of all trajectories, trained or from the store at `place`."""
    fabric, watch, store = fabric_of(experiment.machine), Watch(stop_asked=stop_asked), Store(place)
    torch.set_num_threads(experiment.machine.threads)
    found: Walked = []
    for one in trajectories_in(settle(experiment)):
        with one.table.told():
            found.append((one, list(steps_of(one, store, fabric, watch))))
    return found


def _told(check: Callable[[], str | None]) -> str | None:
    """What the check finds; an error that it ends with is a finding, too."""
    try:
        return check()
    except ValueError as error:
        return str(error)


def _heads(name: str, own: OwnMethods, walked: Walked) -> str | None:
    for trajectory, steps in walked:
        if name in trajectory.methods:
            for step in steps:
                if problem := _told(partial(_head, name, own, trajectory, step)):
                    return problem
    return None


def _head(name: str, own: OwnMethods, trajectory: Trajectory, step: Step) -> str | None:
    """Of one state."""
    options, evidence = trajectory.configuration.experiment.heads, step.learned.evidence
    where = f"{own.place_of(name)}, state {step.state.index}"
    before = {key: tensor.clone() for key, tensor in _tensors(step).items()}
    draw = torch.Generator().manual_seed(0)
    features_ND = torch.rand(7, evidence.new_features_MD.shape[1], generator=draw)
    one, again = (head_of(name, options, step.learned, own.methods) for _ in range(2))
    scores = check_scores(where, own.methods[name].label, one, step.state.num_classes, features_ND)
    if not torch.equal(scores, again.scores(features_ND)):
        return f"{where}: the head gives other scores the second time; draw from a generator with a fixed seed"
    if changed := [key for key, value in before.items() if not torch.equal(_tensors(step)[key], value)]:
        return f"{where}: the head changes the evidence ({changed[0]}); work on a copy: evidence.{changed[0]}.clone()"
    alone = torch.cat([one.scores(of[None]) for of in features_ND])
    if not torch.allclose(scores, alone, rtol=1e-3, atol=1e-4):
        return f"{where}: the scores of an image depend on the images beside it; score each by itself"
    return None


def _tensors(step: Step) -> dict[str, Tensor]:
    evidence = step.learned.evidence
    return {name: getattr(evidence, name) for name in TENSORS} | (vars(evidence.moments) if evidence.moments else {})


def _same_bits(experiment: Experiment, place: Path, walked: Walked) -> str | None:
    return _difference(walked, _walk(experiment, place / "second"), (
        "the same seed gave another {what} the second time; draw every random number from "
        "scail.runtime.seeds.generator_for(task.seed, 'my purpose', task.state), and nothing from torch.rand or numpy "
        "alone"
    ))  # fmt: skip


def _goes_on(experiment: Experiment, place: Path, walked: Walked) -> str | None:
    return _difference(walked, _interrupted(experiment, place / "interrupted"), (
        "a training that was interrupted and went on gave another {what}; train with scail.training.loop.fit, which "
        "keeps its place, and keep nothing of your own between batches"
    ))  # fmt: skip


def _interrupted(experiment: Experiment, place: Path) -> Walked:
    """The same walk, stopped again and again."""
    allowed = 2
    while True:
        asked = iter(range(allowed))
        try:
            return _walk(experiment, place, lambda asked=asked: next(asked, None) is None)  # type: ignore[misc]
        except Interrupted:
            allowed += 3  # further each time, so that it ends


def _difference(walked: Walked, other: Walked, text: str) -> str | None:
    """What differs first between two walks, in this text; None where nothing does."""
    for (trajectory, steps), (_, others) in zip(walked, other, strict=True):
        for one, two in zip(steps, others, strict=True):
            where = f"{trajectory.name}, state {one.state.index}: "
            if _bits(one.learned.network.state_dict()) != _bits(two.learned.network.state_dict()):
                return where + text.format(what="network")
            if [r.tolist() for r in one.learned.memory.exemplars] != [r.tolist() for r in two.learned.memory.exemplars]:
                return where + text.format(what="choice of exemplars")
            if _bits(one.learned.carried) != _bits(two.learned.carried):
                return where + text.format(what="carried value")
    return None


def _bits(tensors: Any) -> list[bytes]:
    return [tensor.detach().cpu().contiguous().numpy().tobytes() for tensor in tensors.values()]


def _without_memory(own: OwnMethods, experiment: Experiment, place: Path) -> str | None:
    walked = _walk(experiment, place / "without")
    for name in experiment.methods:
        if problem := _heads(name, own, walked):
            return f"{problem}. If it cannot do without exemplars, say needs_exemplars=True"
    return None


def _settings(experiment: Experiment, place: Path) -> str | None:
    """Another number in a schedule that the trainer uses: where the network is another one, so is the key."""
    (trajectory, steps), *_ = _walk(experiment, place)
    for name in trajectory.kind.schedules:
        schedule = experiment.recipe.schedules.but([(name, "lr", experiment.recipe.schedules[name].lr / 2)])[name]
        (_, others), *_ = _walk(experiment.but(**{f"{name}_schedule": schedule}), place / name)
        for one, two in zip(steps, others, strict=True):
            other = _bits(one.learned.network.state_dict()) != _bits(two.learned.network.state_dict())
            if other and one.key == two.key:
                return (
                    f"{trajectory.kind.title}: schedule {name!r} changes the network of state {one.state.index}, and "
                    f"is not in settings({one.state.index}): add schedule.record()"
                )
    return None
