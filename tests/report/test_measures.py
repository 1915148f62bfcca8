"""All measures and costs of a run in tables, CSV files and on the page; and of a run that has none of them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from scail.evaluation import pareto_front
from scail.report.grid import grid_caption, telling
from scail.report.measures_table import cost_table, measures_table
from scail.report.table import caption
from scail.report.write import write_report
from scail.results.row import Row
from scail.results.run_directory import RunDirectory
from scail.results.summary import summarise, summarise_seeds
from scail.storage.atomic import write_text
from tests.report.report_runs import _row, make_run

RIGHT = {"ft": ([4], [1, 4], [0, 1, 4]), "scail": ([4], [3, 3], [2, 2, 3])}
"""Of four test images of each state's classes, after each state."""


def rows() -> list[Row]:
    """FT forgets, ScaIL less so; ScaIL keeps more."""
    found = []
    for method, by_state in RIGHT.items():
        for k, right in enumerate(by_state):
            cost = {"parameters": 10, "flops": 20, "bytes_kept": 100 * (k + 1) + 5 * (method == "scail")}
            row = _row(method, "random", k, (2, 2, 2), 20, 1, 100 * sum(right) / (4 * k + 4))
            counts = {"correct_by_state": list(right), "images_by_state": [4] * (k + 1)}
            found.append(replace(row, **counts, cost=cost | {"image_passes": 1000}))
    return found


def test_measures_by_hand():
    timing = [{"trainer": "fine_tune", "select": "random", "memory": 20, "state": k, "training": 2.0} for k in range(3)]
    ft, scail = summarise(rows(), timing)["methods"]
    assert ft["forgetting"] == pytest.approx((100 + 75) / 2) and ft["backward_transfer"] == pytest.approx(-87.5)
    assert scail["forgetting"] == pytest.approx((50 + 25) / 2)
    assert ft["last_top1"] == pytest.approx(500 / 12) and ft["intransigence"] is None
    assert ft["mean_all_top1"] == pytest.approx((100 + 62.5 + 500 / 12) / 3)
    assert ft["cost"] == {"parameters": 10, "flops": 20, "bytes_kept": 300, "image_passes": 3000, "seconds": 6.0}
    together = summarise_seeds({1: summarise(rows()), 2: summarise(rows())})["methods"][0]
    assert together["forgetting_std"] == 0 and together["cost"]["bytes_kept"] == 300
    assert together["cost"]["seconds"] is None
    assert together["per_state"][2]["by_state"] == [0, 25, 100]


def test_task_given_is_the_mean_over_incremental_states_where_all_of_them_have_it():
    given = [replace(row, task_given=value) for row, value in zip(rows()[:3], (100.0, 70.0, 50.0), strict=True)]
    assert summarise(given)["methods"][0]["task_given"] == 60
    assert summarise([*given[:2], rows()[2]])["methods"][0]["task_given"] is None


def test_full_of_other_states_says_nothing_of_intransigence():
    full = replace(_row("full", None, 0, (6,), 0, 1, 90.0), correct_by_state=[4, 4, 2], images_by_state=[4, 4, 4])
    ft, _ = summarise([*rows(), full])["methods"]
    assert ft["intransigence"] == pytest.approx(50 - 100)
    lent = replace(full, correct_by_state=[6, 4], images_by_state=[6, 6])
    assert summarise([*rows(), lent])["methods"][0]["intransigence"] is None


def test_tables_files_and_page_have_them(tmp_path):
    run = make_run(tmp_path / "run", selects=("random",), full=False)
    summary = json.loads((run / "summary.json").read_text()) | summarise(rows())
    write_text(run / "summary.json", json.dumps(summary))
    page = write_report(run, formats=["png"]).read_text(encoding="utf-8")
    assert 'id="measure"' in page and "bytes kept" in page and '"bytes_kept":305' in page
    tables = {path.name for path in (run / "tables").iterdir()}
    assert {"measures.csv", "measures.tex", "cost.md", "states.csv", "matrix.csv"} <= tables
    with (run / "tables" / "matrix.csv").open() as file:
        lines = list(csv.DictReader(file))
    last = [float(line["top1"]) for line in lines if (line["method"], line["after state"]) == ("scail", "2")]
    assert last == [50, 50, 75]
    assert (run / "figures" / "cost.png").is_file()
    assert "## What each method costs" in (run / "table.md").read_text()


def test_a_run_of_an_older_version_has_what_it_has(tmp_path):
    run = make_run(tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text())
    for record in summary["methods"]:
        for name in ("cost", "forgetting", "last_top1", "past_accuracy"):
            record.pop(name, None)
    write_text(run / "summary.json", json.dumps(summary))
    assert write_report(run, formats=[]).is_file()
    assert not cost_table(summary).rows
    assert "forgetting" not in measures_table(summary).columns


def test_why_there_is_no_gap_and_what_tells_few_classes_apart():
    without = summarise(rows())
    assert "G_IL is not there: it is measured from Full, which was not run" in caption(without)
    perfect = summarise([*rows(), _row("full", None, 0, (6,), 0, 1, 100.0)])
    assert "Full has a top-5 of 100 %" in caption(perfect)
    assert "Full has a top-1 of 100 %" in grid_caption({"Z=3": perfect}, "top1")
    assert telling({"Z=3": without}) == "top1"


def test_lowest_is_best_where_it_should_be():
    table = measures_table(summarise(rows()))
    at = list(table.columns).index("forgetting")
    assert {label: row[at].best for label, row in table.rows} == {"FT, random": False, "ScaIL, random": True}


def test_nothing_on_the_front_is_beaten():
    costs, values = [5, 1, 3, 3, 2], [9, 2, 7, 4, 1]
    assert pareto_front(costs, values) == [1, 2, 0]


def test_rows_are_written_by_class(tmp_path):
    run = make_run(tmp_path / "run", selects=("random",))
    assert {"correct", "images", "state"} <= json.loads((run / "classes.jsonl").read_text().splitlines()[0]).keys()
    assert RunDirectory(run).rows()
