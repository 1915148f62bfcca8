"""How the rate falls, and when a training ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scail.config import Schedule
from scail.training.rates import Rates, soonest

SETTLE = Schedule(epochs=40, lr=0.4, batch_size=1, decay="settle", patience=2, gain=0.1)


def rates_of(schedule: Schedule, losses, most: int) -> list[float]:
    """The rates of a training whose epochs have these losses (the last one again and again)."""
    of, rates = Rates(replace(schedule, epochs=most), 0, images=100), list[float]()
    while not of.ended(losses[: len(rates)]):
        if len(losses) <= len(rates):
            losses = [*losses, losses[-1]]
        rates.append(of.next(losses[: len(rates)]))
    return rates


@given(st.lists(st.floats(0.001, 10), max_size=30), st.integers(0, 4))
def test_the_plateau_rule_is_torchs_own(losses, patience):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=patience, eps=0)
    for loss in losses:
        reference.step(loss)
    schedule = Schedule(epochs=99, lr=0.1, batch_size=1, patience=patience)
    assert Rates(schedule, 0, 1).next(losses) == pytest.approx(optimizer.param_groups[0]["lr"])


def test_cosine_goes_from_the_rate_to_nothing_and_states_divide_it():
    rates = rates_of(Schedule(4, 0.4, 1, decay="cosine"), [1.0], 4)
    assert rates == pytest.approx([0.4, 0.2 * (1 + 0.5**0.5), 0.2, 0.2 * (1 - 0.5**0.5)])
    assert Rates(Schedule(4, 0.4, 1, divide_by_state=True), 3, 1).next([]) == pytest.approx(0.1)
    assert Rates(Schedule(4, 0.4, 1), 3, 1).next([]) == 0.4


def test_settle_ends_soon_after_the_loss_has_stopped_falling():
    # Two epochs of 1.0 against two of 1.0: the loss no longer falls after the sixth; a third of six more are left.
    rates = rates_of(SETTLE, [4.0, 2.0, 1.0, 1.0, 1.0, 1.0], 40)
    assert rates == pytest.approx([0.4] * 6 + [0.4 * 2 / 3, 0.4 * 1 / 3])
    # A second pair that is a fifth lower than the first counts as falling, one that is a twentieth lower does not.
    assert len(rates_of(SETTLE, [1.0, 1.0, 0.8, 0.8, 0.8, 0.8], 40)) == 8
    assert len(rates_of(SETTLE, [1.0, 1.0, 0.95, 0.95], 40)) == 6


def test_settle_is_over_in_time_where_the_loss_falls_all_along():
    rates = rates_of(SETTLE, [0.8**epoch for epoch in range(40)], 40)
    assert len(rates) == 40 and rates[:30] == [0.4] * 30 and rates[-1] == pytest.approx(0.4 / 11)
    assert rates_of(SETTLE, [1.0], 1) == pytest.approx([0.2])


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=60), st.integers(1, 50), st.integers(0, 9))
def test_settle_never_takes_longer_nor_rises(losses, most, patience):
    rates = rates_of(Schedule(50, 0.4, 1, decay="settle", patience=patience, gain=0.05), losses, most)
    assert 1 <= len(rates) <= most and rates == sorted(rates, reverse=True) and rates[-1] > 0
    assert rates[-1] <= 0.2  # however short, it ends at a lower rate


def test_a_limit_of_images_shortens_what_is_long_and_nothing_else():
    schedule = Schedule(epochs=30, lr=0.1, batch_size=32, passes=6000)
    assert [schedule.most_epochs(images) for images in (10, 200, 400, 6000, 50_000)] == [30, 30, 15, 1, 1]
    assert Schedule(epochs=30, lr=0.1, batch_size=32).most_epochs(50_000) == 30


def test_small_data_is_looked_at_over_more_epochs():
    schedule = replace(SETTLE, epochs=99, window=1000)
    assert [schedule.epochs_looked_at(images) for images in (100, 300, 1000, 9999)] == [10, 4, 2, 2]
    assert len(rates_of(schedule, [1.0], 99)) == 20 + 7


@given(
    st.lists(st.floats(0.001, 10), min_size=60, max_size=60), st.integers(1, 60), st.integers(0, 6),
    st.floats(0, 0.9), st.integers(0, 500), st.integers(1, 5000),
)  # fmt: skip
def test_no_training_is_shorter_than_the_soonest_nor_longer_than_the_limit(
    losses, epochs, patience, gain, window, passes
):
    schedule = Schedule(epochs, 0.1, 1, decay="settle", patience=patience, gain=gain, window=window, passes=passes)
    rates = Rates(schedule, 0, images=50)
    took = next(n for n in range(61) if rates.ended(losses[:n]))
    fewest = soonest(schedule).most_epochs(50)
    assert fewest <= took <= schedule.most_epochs(50)
    assert rates.ended(range(fewest)) and not rates.ended(range(fewest - 1))


def test_a_training_of_fixed_length_is_never_shorter():
    schedule = Schedule(epochs=40, lr=0.1, batch_size=1, decay="cosine")
    assert soonest(schedule) is schedule
