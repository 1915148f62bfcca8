"""How long a plan says that trainings take, beside how long they took: within 30 % on a quiet machine.

Each run begins with an empty store, in one process. Trainings have fixed numbers of epochs: what ends by its loss is
counted to its limit in a plan. `python -m benchmarks.plan 32-true` (or bf16-mixed) asks for a precision.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from scail.benchmark.configuration import settle
from scail.benchmark.plan import plan_of
from scail.benchmark.prices import prices_of
from scail.benchmark.runner import run_experiment
from scail.config import Experiment
from scail.config.recipes import quick

EPOCHS, WITHIN = (24, 12), 0.30


def to_the_end(experiment: Experiment) -> Experiment:
    """Every training goes through all its epochs."""
    schedules = {
        name: replace(schedule, decay="cosine", passes=0, gain=0.0, window=0)
        for name, schedule in experiment.recipe.schedules.items()
    }
    return experiment.but(**{f"{name}_schedule": schedule for name, schedule in schedules.items()})


def measure(experiment: Experiment) -> tuple[float, float]:
    """Seconds that are planned, and seconds that are taken."""
    settled = settle(experiment)
    (count,) = plan_of([settled], prices=prices_of).values()
    assert count.may_end == 0, "the plan would be the most that it can take"
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        run_experiment(experiment, Path(place) / "run", store=Path(place) / "store", jobs=1)
        return count.seconds, time.perf_counter() - began


def main(precision: str) -> None:
    """Measure, print, assert."""
    small = {"classes": 40, "images_per_class": 60, "states": 5, "precision": precision}
    experiments = {
        "glyphs, fine tuning and Full, resnet8": quick("glyphs").but(methods=("ft", "scail", "full"), **small),
        "glyphs, a teacher in the loss, resnet8": quick("glyphs").but(methods=("icarl", "bic", "lucir"), **small),
        "glyphs, fine tuning, resnet20": quick("glyphs").but(methods=("ft",), network="resnet20", **small),
    }
    off = []
    for name, experiment in experiments.items():
        planned, taken = measure(to_the_end(experiment.with_epochs(EPOCHS)))
        off.append(abs(planned / taken - 1))
        print(f"{precision}: {name}: {planned:.1f} s planned, {taken:.1f} s taken: {planned / taken:.2f}", flush=True)
    assert max(off) <= WITHIN, f"a plan is {100 * max(off):.0f} % off"


if __name__ == "__main__":
    main(*sys.argv[1:] or ["auto"])
