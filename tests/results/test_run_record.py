"""Runs that nobody vouches for: `scail report` and `scail paper` read them value by value, or name what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from scail.cli.main import main
from scail.report.runs import read_runs
from tests.report.report_runs import make_run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made") / "run"
    make_run(place, methods=("ft", "scail"))
    return place


@pytest.fixture
def run(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


def change(path: Path, **values: object) -> None:
    """In the first record of the file."""
    first, *rest = path.read_text().split("\n") if path.suffix == ".jsonl" else [path.read_text()]
    path.write_text("\n".join([json.dumps(json.loads(first) | values), *rest]))


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("config.json", {"state_sizes": [0]}, "state_sizes: not as a run writes it"),
        ("config.json", {"class_order": 7}, "class_order: 7: expected a list"),
        ("config.json", {"dataset": None}, "dataset: None: expected a record"),
        ("config.json", {"experiment": {"seed": 1}}, "experiment: has no class_order"),
        ("config.json", {"memory": -1}, "memory or seed: not as a run writes it"),
        ("summary.json", {"methods": [{"method": "ft"}]}, r"methods: has no label"),
        ("summary.json", {"full": {"top1": 1000.0, "top5": 1.0}}, "full: not as a run writes it"),
        ("results.jsonl", {"state": 99}, "line 1: state: not as a run writes it"),
        ("results.jsonl", {"method": "../../x"}, "line 1: method '../../x': not as a run writes it"),
        ("results.jsonl", {"errors": {"c(p)": 1}}, "line 1: errors: not as a run writes it"),
        ("results.jsonl", {"top1": None}, "line 1: row.top1: None: expected a number"),
    ],
)
def test_values_of_another_kind_are_named_with_file_and_line(run, file, values, said):
    change(run / file, **values)
    with pytest.raises(ValueError, match=said) as error:
        read_runs([run])
    assert str(run / file) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("file", ["config.json", "summary.json", "results.jsonl"])
@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff", b"[]", b'{"a": NaN}', b"{"])
def test_files_that_are_no_records_are_an_error_of_one_line(run, file, content, capsys):
    (run / file).write_bytes(content)
    with pytest.raises(SystemExit) as end:
        main(["report", str(run)])
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.count("\n") == 1 and str(run) in said and "Traceback" not in said
