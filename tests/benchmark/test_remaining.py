"""How long trajectories still take, with a clock that the test winds."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from scail.benchmark.configuration import settle
from scail.benchmark.finished import Finished
from scail.benchmark.plan import trajectories_of
from scail.benchmark.remaining import Remaining
from scail.benchmark.workers import Update
from scail.cli.display import Display
from scail.config.recipes import quick
from scail.training import Progress

SMALL = {"classes": 6, "images_per_class": 10, "states": 3, "memory": 10, "methods": ("ft",)}


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(scope="module")
def trajectories():
    """Two states of fine tuning after the first, for two seeds; each training takes 80 epochs at most."""
    found = trajectories_of([settle(quick("digits").but(**SMALL, select=("random",), seed=seed)) for seed in (1, 2)])
    assert [one.passes for one in found] == [(80 * 20, 80 * 30, 80 * 30)] * 2
    return found


def follow(trajectories, finished):
    clock = Clock()
    return clock, Remaining(trajectories, finished, clock)


def test_nothing_known_it_counts_to_the_limits(trajectories):
    clock, remaining = follow(trajectories, Finished())
    assert remaining.seconds([0]) is None and not remaining.known([0])
    remaining.went(0, 0, 0)
    clock.seconds = 2.0
    remaining.went(0, 0, 400)
    assert (remaining.done(0), remaining.total(0)) == (400, 80 * 80)
    assert remaining.seconds([0]) == pytest.approx((6400 - 400) / 200)  # 200 images a second


def test_what_trainings_took_is_taken_of_those_to_come(trajectories):
    clock, remaining = follow(trajectories, Finished())
    remaining.went(0, 0, 0)
    clock.seconds = 4.0
    remaining.went(0, 0, 20 * 20)
    remaining.ended(0, 0, 20 * 20, trained=True)  # a quarter of its epochs
    assert remaining.known([0, 1])
    assert remaining.total(0) == 20 * 20 + 2 * 20 * 30  # later states are of another kind: as this one, for now
    assert remaining.seconds([0]) == pytest.approx(1200 / 100)
    assert remaining.seconds([0, 1]) == pytest.approx((1200 + 1600) / 100)
    remaining.went(0, 1, 40 * 30)
    remaining.ended(0, 1, 40 * 30, trained=True)
    assert remaining.total(0) == 20 * 20 + 2 * 40 * 30  # its own kind took a half


def test_states_from_the_store_take_no_time_and_teach_nothing(trajectories):
    clock, remaining = follow(trajectories, Finished())
    remaining.ended(0, 0, 20 * 20, trained=False)
    assert not remaining.known([0]) and remaining.seconds([0]) is None
    remaining.went(0, 1, 0)
    clock.seconds = 1.0
    remaining.went(0, 1, 300)
    assert remaining.seconds([0]) == pytest.approx((2 * 80 * 30 - 300) / 300)


def test_what_the_store_has_counts_from_the_start(trajectories):
    finished = Finished()
    for training in trajectories[0].trainings.values():
        finished.add(training.kind, training.epochs, 0.5)
    _, remaining = follow(trajectories, finished)
    assert remaining.known([0]) and remaining.total(0) == 40 * 80
    remaining.went(0, 0, 50 * 20)  # longer than others: so long at least
    assert remaining.total(0) == 50 * 20 + 2 * 40 * 30


@pytest.mark.parametrize("terminal", [False, True])
def test_lines_and_bars_say_how_long_is_left(trajectories, terminal):
    clock, out = Clock(), io.StringIO()
    display = Display(Console(file=out, width=200, force_terminal=terminal))
    display.begin(trajectories)
    display._remaining.now = clock
    display.receive(Update(0, 0, progress=Progress(0, 80, 0)))
    clock.seconds = 60.0
    display.receive(Update(0, 0, progress=Progress(79, 80, 6400)))
    display.receive(Update(0, done=True))
    display.end()
    said = out.getvalue()
    assert "1 of 2 trainings through all states are done, at most 1.8 min left" in said  # 6400 of 17600 in a minute
    assert ("all trainings" in said) == terminal
