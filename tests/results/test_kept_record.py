"""Kept numbers that nobody vouches for: what is not as scail writes it is an error that names file and line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from scail.results.archive import Archive, read_measurements

KEPT = Path(__file__).parents[1] / "data" / "version_0_1" / "results" / "digits-z2-b12-seed1.jsonl"


@pytest.fixture
def kept(tmp_path):
    return Path(shutil.copy(KEPT, tmp_path / "a.jsonl"))


def changed(path: Path, line: int, change) -> None:
    lines = path.read_text().splitlines()
    record = json.loads(lines[line])
    change(record)
    lines[line] = json.dumps(record)
    path.write_text("\n".join(lines))


def test_files_of_version_0_1_are_read(kept):
    assert read_measurements(kept).pairs and len(Archive(kept.parent)) == 1


@pytest.mark.parametrize(
    ("line", "change", "said"),
    [
        (0, lambda of: of.pop("key"), "has no key"),
        (0, lambda of: of["dataset"].update(train_images=0), "dataset: not as a run writes it"),
        (0, lambda of: of.update(state_sizes=[3, 4]), "state_sizes: not as a run writes it"),
        (0, lambda of: of.update(experiment=7), "experiment: 7: expected a record"),
        (1, lambda of: of["made"].pop("schedules"), "line 2: made: has no schedules"),
        (1, lambda of: of["made"]["schedules"]["first_schedule"].pop("decay"), "has no decay"),
        (1, lambda of: of["made"]["schedules"].pop("first_schedule"), "not as a run writes it"),
        (2, lambda of: of.update(errors={}), "line 3: errors: not as a run writes it"),
        (2, lambda of: of.update(trainer="unknown"), "schedules of unknown: not as a run writes it"),
        (2, lambda of: of.update(top5="x"), "line 3: row.top5: 'x': expected a number"),
        (2, lambda of: of.update(states=[1]), r"line 3: states: \[1\]: expected a record"),
    ],
)
def test_what_is_missing_or_of_another_kind(kept, line, change, said):
    changed(kept, line, change)
    with pytest.raises(ValueError, match=said) as error:
        Archive(kept.parent).all()
    assert str(error.value).startswith(str(kept))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]", b"{}", b"[" * 100_000, b"NaN"])
def test_what_is_no_such_file(kept, content):
    kept.write_bytes(content)
    with pytest.raises(ValueError, match="not a file of results; expected a configuration in its first line"):
        Archive(kept.parent)


def test_a_method_without_one_of_its_states_is_named(kept):
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join(lines[:-1] if '"full"' not in lines[-1] else [*lines[:2], *lines[3:]]))
    with pytest.raises(ValueError, match=r"states of .*: not as a run writes it"):
        Archive(kept.parent).all()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_plain_file_is_named_and_not_waited_for(tmp_path, make):
    make(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match=r"a\.jsonl: not a file of results; .* \(not a plain file\)"):
        Archive(tmp_path)
