"""Numbers of networks that did not learn are marked where they stand, and no claim rests on them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scail.report.claims import Claim, hold
from scail.report.grid import markdown_grid, rows_of
from scail.report.learning_table import learning_table
from scail.report.measures_table import measures_table, states_csv
from scail.report.table import caption, cells, markdown_table, table_of
from scail.report.tabular import to_csv, to_markdown
from scail.report.write import write_report
from scail.results.row import Row
from scail.results.summary import not_learned, summarise, summarise_seeds
from tests.report.report_runs import make_run

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


def test_grids_measures_and_comparisons_mark_it_too():
    summaries = {name: summarise(rows(True, learned, True)) for name, learned in (("bad", False), ("good", True))}
    (_, texts), *_ = rows_of(summaries)
    assert [text.strip("*")[-1] for text in texts[:2]] == ["†", "0"]
    table = markdown_grid({"made": summaries})
    assert "†: in some state the network did not learn" in table and "--schedule later.epochs" in table
    assert "†" not in markdown_grid({"made": {"good": summaries["good"]}})
    for summary, marked in zip(summaries.values(), (True, False), strict=True):
        text = to_markdown(measures_table(summary))
        assert ("†: in some state" in text) == ("90.0†" in text) == marked


def test_numbers_for_programs_stay_numbers():
    lines = to_csv(table_of(summarise(rows(True, False, True)))).splitlines()
    assert lines[1].startswith("FT†,99.0,90.0")


def test_the_table_says_it_state_by_state():
    of_ft = [
        replace(row, exemplar_top1=40.0, new_top1=99.0, initial_top1=30.5, drift=0.256) if row.state else row
        for row in rows(True, False)
    ]
    beside = [replace(row, method="scail", label="ScaIL", top1=1.0) for row in of_ft]
    table = learning_table(summarise([*of_ft, *beside]))
    assert [label for label, _ in table.rows] == ["FT, random, state 0", "FT, random, state 1"]  # one training
    texts = dict(zip(table.columns, (cell.text for cell in table.rows[1][1]), strict=True))
    assert texts == {
        "top-1": "90.0", "floor": "50.0", "exemplars": "40.0", "new images": "99.0",
        "exemplars, initial classifiers": "30.5", "drift": "0.26", "learned": "no",
    }  # fmt: skip
    assert not learning_table(summarise([replace(row, floor=None, drift=None) for row in rows(None, None)])).rows
    titles, lines = states_csv(summarise(of_ft))
    assert dict(zip(titles, lines[1], strict=True))["learned"] == "no"


def test_a_report_has_the_table_and_its_first_words_leave_out_what_did_not_learn(tmp_path):
    make_run(tmp_path / "run", full=False)
    good, bad = (json.loads((tmp_path / "run" / "summary.json").read_text()) for _ in range(2))
    for record in bad["methods"]:
        if record["method"] == "ft":
            record["per_state"][1] |= {"learned": False, "floor": 50.0, "exemplar_top1": 10.0}
    for summary, learned in ((good, True), (bad, False)):
        (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
        page = write_report(tmp_path / "run", tmp_path / "out", formats=()).read_text()
        assert ("ScaIL moves FT from" in page) == learned
        best = max((r for r in summary["methods"] if learned or r["method"] != "ft"), key=lambda r: r["top5"])
        assert f"{best['top5']:.1f} % in the mean over the incremental states and " in page
        assert f"{best['per_state'][-1]['top5']:.1f} % after the last one, on all classes" in page
        assert ("Not everything learned: 2 of 4 rows" in page) == ("Did it learn?" in page) == (not learned)
        assert (tmp_path / "out" / "tables" / "learning.csv").exists() == (not learned)


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
