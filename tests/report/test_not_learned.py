"""Numbers of networks that did not learn are marked where they stand, and no claim rests on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scail.report.claims import Claim, hold
from scail.report.table import caption, cells, markdown_table
from scail.results.row import Row
from scail.results.summary import not_learned, summarise, summarise_seeds

ROW = Row("ft", "FT", True, "random", 10, 10, "fine_tune", 0, 2, 90.0, 99.0, 10, {}, [], {}, 1, 1, learned=True)


def rows(*learned, memory=10):
    return [
        replace(ROW, state=k, learned=one, memory=memory, floor=50.0, drift=0.1 * k) for k, one in enumerate(learned)
    ]


def test_the_mark_and_what_to_do():
    bad, good = summarise(rows(True, False, True)), summarise(rows(True, True, True))
    assert [cell.text[-1] for cell in cells(bad)[0][1][:2]] == ["†", "†"]
    assert "†: in state 1 the network did not learn" in caption(bad) and "--schedule later.epochs" in caption(bad)
    assert "†" in markdown_table(bad)
    assert "†" not in markdown_table(good) + caption(good)


def test_rows_of_before_and_rows_without_a_memory_are_not_marked():
    assert "†" not in markdown_table(summarise(rows(None, None)))
    assert "†" not in markdown_table(summarise(rows(True, False, memory=0)))


def test_states_of_a_summary_say_it():
    states = summarise(rows(True, False))["methods"][0]["per_state"]
    assert [of["learned"] for of in states] == [True, False]
    assert states[1]["floor"] == 50 and states[1]["drift"] == pytest.approx(0.1)


def test_over_seeds_a_state_is_learned_where_all_of_them_are():
    together = summarise_seeds({1: summarise(rows(True, True)), 2: summarise(rows(True, False))})
    record = together["methods"][0]
    assert not_learned(record) == [1]
    assert record["per_state"][1]["drift"] == pytest.approx(0.1)


def test_a_claim_on_a_network_that_did_not_learn_is_not_testable():
    a, b, here = ("scail", "random"), ("ft", "random"), (10, "1%")
    claim, measured = (
        Claim(here, "a > b", (a,), (b,)),
        {here: {1: {a: 60, b: 50}, 2: {a: 61, b: 50}, 3: {a: 62, b: 50}}},
    )
    assert hold(claim, measured).verdict == "shown"
    held = hold(claim, measured, {here: {b}})
    assert held.verdict == "not testable" and held.difference == pytest.approx(11)
    assert hold(claim, measured, {(20, "1%"): {b}}).verdict == "shown"
