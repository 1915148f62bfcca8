"""Numbers of other papers: read with their protocol, and held against runs of the very same one only."""

from __future__ import annotations

import pytest

from scail.results.papers import COLUMNS, beside_papers, paper_numbers
from tests.report.report_runs import config_for

LINE = "mine,ft,random,made,6,seed,3,,20,,,last_top1,,50.0,my notes"


def write(path, *lines):
    path.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    return path


def summary_of(**values):
    per_state = [{"top1": 90.0, "top5": 99.0}, {"top1": 70.0, "top5": 95.0}, {"top1": 60.0, "top5": 90.0}]
    record = {"method": "ft", "label": "FT", "select": "random", "last_top1": 60.0, "per_state": per_state}
    return {"methods": [record | values]}


def test_what_comes_with_scail_has_a_source_and_a_protocol():
    numbers = paper_numbers()
    assert numbers and all(number.source and 0 <= number.value <= 100 for number in numbers)
    bic = [n.value for n in numbers if n.paper == "BiC (CVPR 2019)"]
    assert (bic[0], bic[-1], len(bic)) == (94.1, 73.2, 10)


def test_only_like_is_compared_with_like(tmp_path):
    numbers = [n for n in paper_numbers([write(tmp_path / "n.csv", LINE)]) if n.paper == "mine"]
    config = config_for((2, 2, 2))
    (found,) = beside_papers(config, summary_of(), numbers)
    assert (found.measured, found.number.value, found.label) == (60.0, 50.0, "FT")
    assert beside_papers(config, summary_of(select="herding"), numbers) == []
    for other in (
        config_for((2, 2, 2), memory=21),
        config_for((3, 3)),
        config_for((1, 2, 3)),
        config_for((2, 2, 2), experiment={"class_order": "icarl"}),
        config_for((2, 2, 2), dataset={"name": "other"}),
        config_for((2, 2, 2)) | {"memory_per_class": 3},
    ):
        assert beside_papers(other, summary_of(), numbers) == []


def test_a_first_state_of_another_size_is_part_of_the_protocol(tmp_path):
    numbers = [
        n for n in paper_numbers([write(tmp_path / "n.csv", LINE.replace(",3,,20", ",3,4,20"))]) if n.paper == "mine"
    ]
    assert beside_papers(config_for((4, 1, 1)), summary_of(), numbers)
    assert not beside_papers(config_for((2, 2, 2)), summary_of(), numbers)
    half = {n.method: (n.value, n.protocol[3:6]) for n in paper_numbers() if "FeTrIL" in n.paper}
    assert half == {"deesil": (60.0, (6, 50, 0)), "fetril": (66.3, (6, 50, 0))}


def test_numbers_after_a_state_and_of_each_class(tmp_path):
    lines = ("mine,ft,random,made,6,seed,3,,,3,,top5,1,94.0,my notes",)
    numbers = [n for n in paper_numbers([write(tmp_path / "n.csv", *lines)]) if n.paper == "mine"]
    (found,) = beside_papers(config_for((2, 2, 2)) | {"memory_per_class": 3}, summary_of(), numbers)
    assert found.measured == 95.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace("my notes", ""), "line 2: has no source"),
        (LINE.replace("20,,,", "20,2,,"), "expected one of memory and memory_per_class"),
        (LINE.replace("last_top1", "goodness"), "measure 'goodness': expected one of top5"),
        (LINE.replace("last_top1,,", "last_top1,2,"), "measure 'last_top1': expected one of top1, top5"),
        (LINE.replace("50.0", "500"), "value 500: expected percent"),
        (LINE.replace(",6,", ",six,"), "line 2: invalid literal"),
    ],
)
def test_a_line_that_is_wrong_is_named(line, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        paper_numbers([write(tmp_path / "n.csv", line)])
    with pytest.raises(ValueError, match="has no column paper"):
        paper_numbers([tmp_path / "m.csv"]) if (tmp_path / "m.csv").write_text("a,b\n") else None
    with pytest.raises(ValueError, match="cannot be read"):
        paper_numbers([tmp_path / "nowhere.csv"])
