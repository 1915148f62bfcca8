"""`scail paper`: the published tables, and runs beside them."""

from __future__ import annotations

import json

import pytest

from scail.cli.main import main
from scail.config import Experiment
from scail.config.recipes import paper, paper_code, quick
from scail.report.paper import compare, differences, gaps, how_trained, nearest
from scail.results.published import published, published_full
from tests.report.report_runs import make_run


def run(experiment: Experiment, memory: int, values: dict[tuple[str, str | None], float], states: int = 10):
    """Column and summary as a run would write them, with these top-5 values."""
    config = {
        "experiment": json.loads(json.dumps(experiment.record())),
        "dataset": {"name": experiment.dataset, "train_images": 50_000, "test_images": 10_000},
        "state_sizes": [100 // states] * states,
    }
    records = [{"method": m, "select": s, "memory": memory, "top5": v} for (m, s), v in values.items()]
    return config, {"methods": records, "full": {"top5": 90.0}, "averaging": "mean"}


def test_the_published_tables_are_complete():
    cells = published()
    table1 = [cell for cell in cells if cell.label != "Full" and cell.memory]
    assert len(table1) == 11 * 20  # eleven rows, twenty configurations
    assert len([cell for cell in cells if cell.label != "Full" and not cell.memory]) == 6 * 4
    assert published_full("CIFAR-100") == 91.2


def test_published_gaps_are_the_published_column():
    from scail.results.published import _rows

    for row in _rows("table1_gil.csv"):
        mine = [cell for cell in published() if cell.label == row["method"] and cell.memory]
        found = [
            compare(
                {"dataset": {"name": name}, "state_sizes": [1] * cell.states},
                {"methods": [_record(cell)], "full": None},
            )[0]
            for cell in mine
            for name in [next(k for k, v in _names().items() if v == cell.dataset)]
        ]
        measured, theirs, count = gaps(found)[row["method"]]
        assert (measured, count) == (None, 20)  # Full was not measured here
        assert theirs == pytest.approx(float(row["g_il"]), abs=0.006)


def _names():
    from scail.results.published import DATASETS

    return DATASETS


def _record(cell):
    from scail.results.published import WITH_MEMORY

    method, select = next(key for key, label in WITH_MEMORY.items() if label == cell.label)
    return {"method": method, "select": select, "memory": cell.memory, "top5": 50.0}


def test_cells_are_matched_by_data_states_memory_and_selection():
    values = {("scail", "random"): 80.0, ("scail", "herding"): 86.0, ("ft", "herding"): 70.0, ("ft_wa", "random"): 99.0}
    found = compare(*run(paper("cifar100"), 1000, values))
    assert [(one.label, one.measured, one.published) for one in found] == [
        ("ScaIL", 80.0, 84.6),
        ("ScaIL^herd", 86.0, 85.6),
    ]  # FT with herding and WA have no row
    measured, theirs, count = gaps(found)["ScaIL"]
    assert (measured, theirs, count) == (pytest.approx(-1.0), pytest.approx((84.6 - 91.2) / 8.8), 1)
    without = compare(*run(paper("cifar100"), 0, {("lwf", None): 70.0, ("scail", None): 30.0}))
    assert [(one.label, one.published) for one in without] == [("LwF", 79.49), ("ScaIL", 33.49)]
    assert not compare(*run(paper("cifar100"), 999, values))
    assert not compare(*run(paper("glyphs"), 1000, values))


def test_fine_tuning_without_a_memory_is_one_cell_under_both_of_its_names():
    values = {("ft", None): 20.0, ("ft_nomem", None): 20.0, ("scail", None): 30.0, ("ft_nem", None): 1.0}
    found = compare(*run(quick("cifar100"), 0, values))
    assert [(c.label, c.measured, c.published) for c in found] == [("FT^noMem", 20.0, 21.27), ("ScaIL", 30.0, 33.49)]


def test_what_differs_is_said():
    assert differences(run(paper("cifar100"), 1000, {})[0]) == []
    config, _ = run(paper("cifar100").but(network="resnet8", images_per_class=50), 1000, {})
    assert differences(config) == [
        "network: resnet8 (paper: resnet18-3x3)",
        "images_per_class: 50 (paper: None)",
    ]
    said = differences(run(quick("cifar100"), 1000, {})[0])
    assert {"first_schedule.epochs: 80 (paper: 300)", "first_schedule.passes: 160000 (paper: none)"} <= {*said}
    assert "class_order: seed (paper: icarl)" in said
    config, _ = run(paper("ilsvrc").but(split="official"), 5000, {})
    config["dataset"] |= {"train_images": 1_281_167, "test_images": 50_000, "notes": ["packed copy"]}
    assert differences(config) == [
        "split: official (paper: icarl)",
        "1281167 training images (paper: 1231167)",
        "data: packed copy",
    ]


def test_a_setting_that_came_later_had_its_default():
    config, _ = run(paper("cifar100"), 1000, {})
    del config["experiment"]["few_negatives"]
    assert differences(config) == []
    config["experiment"]["few_negatives"] = True
    assert differences(config) == ["few_negatives: True (paper: False)"]


def test_a_run_that_matches_nothing_names_the_nearest_cell():
    config, summary = run(quick("glyphs"), 200, {("scail", "random"): 80.0})
    said = nearest(config, summary)
    assert "glyphs is not in the paper" in said and "CIFAR-100, Z=10, memory of 250" in said
    said = nearest(*run(paper("cifar100"), 990, {("ft_wa", "random"): 1.0}, states=20))
    assert "Z=20 with a memory of 990" in said and "none of its methods" in said and "Z=20, memory of 250" in said


def test_the_command_prints_cells_and_gaps(tmp_path, capsys):
    for name, (config, summary) in {
        "match": run(paper("cifar100"), 1000, {("scail", "herding"): 86.0}),
        "none": run(quick("glyphs"), 200, {("scail", "random"): 80.0}),
    }.items():
        made = make_run(tmp_path / name, sizes=config["state_sizes"], methods=("scail",), memory=1)
        whole = {part: json.loads((made / f"{part}.json").read_text()) for part in ("config", "summary")}
        config["dataset"] = whole["config"]["dataset"] | config["dataset"]
        (record,) = summary["methods"]
        summary["methods"] = [whole["summary"]["methods"][0] | record]
        (made / "config.json").write_text(json.dumps(whole["config"] | config))
        full = whole["summary"]["full"] | summary["full"]
        (made / "summary.json").write_text(json.dumps(whole["summary"] | summary | {"full": full}))
    with pytest.raises(SystemExit) as end:
        main(["paper", str(tmp_path)])
    out = capsys.readouterr().out
    assert end.value.code == 0
    for text in ("ScaIL^herd", "86.0", "85.6", "+0.4", "-0.40", "-0.64", "matches no published cell"):
        assert text in out


def test_a_folder_without_runs_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["paper", str(tmp_path)])
    assert end.value.code == 2 and "no finished run" in capsys.readouterr().err


def test_it_says_which_recipe_a_run_used_and_what_its_plateau_rule_did(tmp_path):
    config, _ = run(paper_code("cifar100"), 1000, {})
    assert how_trained(config, tmp_path)[0] == "Recipe: paper-code (the authors' public code)."
    assert "a 7x7 stem at 224 pixels only" in how_trained(config, tmp_path)[1]
    lines = [{"rate_lowered": [12]}, {"rate_lowered": []}, {"seconds": 1.0}]
    (tmp_path / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert how_trained(config, tmp_path)[-1] == "The plateau rule lowered the rate in 1 of 2 trainings."
    assert how_trained(run(quick("cifar100"), 1000, {})[0], tmp_path / "none") == ["Recipe: quick."]
