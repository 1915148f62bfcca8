"""How long a plan says that trainings take, beside how long they took: within 30 % on a quiet machine.

Trainings with fixed numbers of epochs begin with an empty store. Of those that end by their loss, a plan first says
between which limits they are. Once they are in the store, it says what is likely for another seed. One process.
`python -m benchmarks.plan 32-true` (or bf16-mixed) asks for a precision.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from scail.benchmark.configuration import settle
from scail.benchmark.finished import Finished
from scail.benchmark.plan import Count, plan_of
from scail.benchmark.prices import prices_of
from scail.benchmark.runner import run_experiment
from scail.config import Experiment
from scail.config.recipes import quick
from scail.storage.remote_store import keys_in

EPOCHS, WITHIN = (24, 12), 0.30


def to_the_end(experiment: Experiment) -> Experiment:
    """Every training goes through all its epochs."""
    schedules = {
        name: replace(schedule, decay="cosine", passes=0, gain=0.0, window=0)
        for name, schedule in experiment.recipe.schedules.items()
    }
    return experiment.but(**{f"{name}_schedule": schedule for name, schedule in schedules.items()})


def measure(experiment: Experiment, place: Path) -> tuple[Count, float]:
    """What is planned, and the seconds that are taken. The store is kept in `place`."""
    store = place / "store"
    (count,) = plan_of([settle(experiment)], keys_in(store), (), prices_of, Finished.in_store(store).share).values()
    began = time.perf_counter()
    run_experiment(experiment, place / f"run-{experiment.seed}", store=store, jobs=1)
    return count, time.perf_counter() - began


def fixed(name: str, experiment: Experiment) -> bool:
    """Whether the plan of trainings of fixed lengths is right."""
    with tempfile.TemporaryDirectory() as place:
        count, taken = measure(to_the_end(experiment.with_epochs(EPOCHS)), Path(place))
    assert count.may_end == 0
    return _told(name, count, taken)


def settling(name: str, first: Experiment, then: Experiment) -> list[bool]:
    """Whether the plans of trainings that end by their loss are right, before the first ones and after them."""
    with tempfile.TemporaryDirectory() as place:
        return [
            _told(f"{name}, {when}", *measure(experiment, Path(place)))
            for when, experiment in (("nothing known", first), ("the first ones known", then))
        ]


def _told(name: str, count: Count, taken: float) -> bool:
    """Print it; what is likely counts where it is known, else the limits."""
    limits = f"{count.least:.1f} to {count.seconds:.1f} s"
    if count.unlike:
        planned, right = f"{limits} planned", count.least * (1 - WITHIN) <= taken <= count.seconds * (1 + WITHIN)
    else:
        planned = f"{count.likely:.1f} s planned ({limits})"
        right = abs(count.likely / taken - 1) <= WITHIN
    ratio = "" if count.unlike else f": {count.likely / taken:.2f}"
    print(f"{name}: {planned}, {taken:.1f} s taken{ratio}{'' if right else '  WRONG'}", flush=True)
    return right


def main(precision: str) -> None:
    """Measure, print, assert."""
    small = {"classes": 40, "images_per_class": 60, "states": 5, "precision": precision}
    digits = quick("digits").but(methods=("ft", "scail", "icarl", "full"), states=5, precision=precision)
    right = [
        fixed("glyphs, fine tuning and Full, resnet8", quick("glyphs").but(methods=("ft", "scail", "full"), **small)),
        fixed(
            "glyphs, a teacher in the loss, resnet8", quick("glyphs").but(methods=("icarl", "bic", "lucir"), **small)
        ),
        fixed("glyphs, fine tuning, resnet20", quick("glyphs").but(methods=("ft",), network="resnet20", **small)),
        *settling("digits, until the loss stops falling", digits, digits.but(seed=2)),
    ]
    assert all(right), f"a plan is more than {100 * WITHIN:.0f} % off"


if __name__ == "__main__":
    main(*sys.argv[1:] or ["auto"])
