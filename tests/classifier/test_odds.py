"""Odds of scores: numbers worked by hand, and scores that were made so that their odds are known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scail.classifier.left_out import LeftOut, odds_left_out
from scail.classifier.odds import POWER, Odds, best_odds, odds_of_best
from scail.heads import Moments, slda_left_out
from scail.heads.slda import shrunk_covariance
from scail.methods import METHODS


def test_odds_by_hand():
    # behind the best: 0, 4 and 9; divided by 1 and their square roots taken: 0, 2 and 3
    found = Odds(1.0, 0.5).of(torch.tensor([[9.0, 5.0, 0.0]]))
    parts = [1, math.exp(-2), math.exp(-3)]
    torch.testing.assert_close(found, torch.tensor([[part / sum(parts) for part in parts]]))


def test_with_power_1_they_are_a_softmax():
    scores = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Odds(0.7).of(scores), torch.softmax(scores / 0.7, dim=1))


def test_a_class_that_cannot_be_predicted_has_no_chance():
    assert Odds(2.0, POWER).of(torch.tensor([[1.0, -math.inf]])).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    "numbers", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.inf, 1.0), (math.nan, 1.0), (1.0, math.nan)]
)
def test_numbers_that_cannot_be_are_an_error(numbers):
    with pytest.raises(ValueError, match="expected numbers above 0"):
        Odds(*numbers)


@pytest.mark.parametrize("power", [1.0, POWER])
@pytest.mark.parametrize("temperature", [0.02, 1.0, 30.0])
def test_the_temperature_of_scores_is_found(temperature, power):
    draw = torch.Generator().manual_seed(0)
    scores = temperature * 3 * torch.randn(4000, 6, generator=draw)
    labels = torch.multinomial(Odds(temperature, power).of(scores), 1, generator=draw)[:, 0]
    found = best_odds(scores, labels, power)
    assert found.power == power
    assert found.temperature == pytest.approx(temperature, rel=0.1)


@given(st.integers(0, 10**6), st.floats(-6, 6), st.sampled_from([1.0, POWER]), st.integers(2, 8))
@settings(max_examples=40, deadline=None)
def test_no_temperature_of_the_grid_is_better(seed, log_scale, power, classes):
    draw = torch.Generator().manual_seed(seed)
    scores = math.exp(log_scale) * torch.randn(60, classes, generator=draw, dtype=torch.float64)
    labels = torch.randint(classes, (60,), generator=draw)

    def loss(temperature):
        return float(-Odds(temperature, power).logs(scores).gather(1, labels[:, None]).mean())

    found = best_odds(scores, labels, power)
    assert loss(found.temperature) <= min(loss(math.exp(step / 20)) for step in range(-230, 139)) + 1e-9


def test_one_success_is_worth_so_much():
    scores = torch.tensor([[5.0, 1.0, -math.inf], [0.0, 4.0, -math.inf]])
    odds = best_odds(scores, torch.tensor([0, 1]), sure=2 / 3).of(scores)
    assert odds.amax(1).tolist() == pytest.approx([2 / 3, 2 / 3], abs=0.02)


def test_images_whose_class_cannot_be_predicted_say_nothing():
    scores = torch.tensor([[1.0, -math.inf], [2.0, 1.0], [1.0, 2.0], [2.5, 2.0]])
    with_it, without = (best_odds(scores[at:], torch.tensor([1, 0, 1, 1])[at:]) for at in (0, 1))
    assert with_it == without
    assert best_odds(scores[:1], torch.tensor([1])) == Odds()
    assert best_odds(torch.ones(3, 1), torch.zeros(3, dtype=torch.int64)) == Odds()


def calibration_error(odds, labels, bins=10):
    """How far the odds of the likeliest class are from how often it is the right one, on average."""
    sure, said = odds.max(1)
    right = (said == labels).double()
    which = (sure * bins).long().clamp(max=bins - 1)
    return sum(
        float((which == b).double().mean()) * abs(float(right[which == b].mean()) - float(sure[which == b].mean()))
        for b in range(bins)
        if (which == b).any()
    )


def clouds(each, size=200, classes=40, tested=50):
    """The moments of some images around means of their own, these images, and others that are tested."""
    draw = torch.Generator().manual_seed(0)
    means = 0.3 * torch.randn(classes, size, generator=draw)
    labels = [torch.arange(classes).repeat_interleave(count) for count in (each, tested)]
    features = [means[of] + torch.randn(len(of), size, generator=draw) for of in labels]
    return Moments.of(features[0], labels[0], classes), list(zip(features, labels, strict=True))


def slda_scores(moments, features):
    weight = torch.linalg.solve(shrunk_covariance(moments)[0], moments.mean_CD.T).T
    return features.double() @ weight.T - 0.5 * (weight * moments.mean_CD).sum(1)


@pytest.mark.parametrize("each", [3, 5, 12])
def test_images_that_are_left_out_make_odds_that_can_be_trusted(each):
    moments, (learned, (images, tested)) = clouds(each)
    odds = odds_left_out(METHODS["slda"], moments, LeftOut(slda_left_out(moments, *learned), learned[1]))
    scores = slda_scores(moments, images)
    assert 0.3 < float((scores.argmax(1) == tested).double().mean()) < 0.98  # neither hopeless nor sure
    trusted, plain = calibration_error(odds.of(scores), tested), calibration_error(Odds().of(scores), tested)
    assert trusted < 0.07 and trusted < plain


def test_of_few_images_the_one_that_is_missing_is_made_up_for():
    moments, (learned, (images, tested)) = clouds(3)
    found, scores = LeftOut(slda_left_out(moments, *learned), learned[1]), slda_scores(moments, images)
    errors = [
        calibration_error(odds_left_out(method, moments, found).of(scores), tested)
        for method in (METHODS["slda"], replace(METHODS["slda"], behind=None))
    ]
    assert errors[0] < 0.07 and errors[1] > 0.2


@given(st.integers(0, 10**6), st.floats(-6, 6), st.integers(2, 8))
@settings(max_examples=40, deadline=None)
def test_no_temperature_makes_it_likelier_that_the_best_class_is_right(seed, log_scale, classes):
    draw = torch.Generator().manual_seed(seed)
    scores = math.exp(log_scale) * torch.randn(60, classes, generator=draw, dtype=torch.float64)
    labels = torch.where(torch.rand(60, generator=draw) < 0.6, scores.argmax(1), 0)

    def loss(temperature):
        chance = Odds(temperature, POWER).of(scores).amax(1)
        return float(-torch.where(scores.argmax(1) == labels, chance, 1 - chance).log().mean())

    found = odds_of_best(scores, labels)
    assert loss(found.temperature) <= min(loss(math.exp(step / 20)) for step in range(-230, 139)) + 1e-9


def test_best_classes_that_are_all_right_are_sure_and_all_wrong_are_a_guess():
    scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert odds_of_best(scores, torch.tensor([0, 1])).of(scores).amax(1).tolist() == [1, 1]
    guess = odds_of_best(scores, torch.tensor([2, 2])).of(scores)
    torch.testing.assert_close(guess, torch.full((2, 3), 1 / 3), atol=0.01, rtol=0)
    assert odds_of_best(scores[:0], torch.tensor([], dtype=torch.int64)) == Odds(power=POWER)
