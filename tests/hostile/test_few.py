"""The same few changed files for every reader each time; `make fuzz` tries many others."""

from __future__ import annotations

import pytest

from tests.hostile.readers import READERS
from tests.hostile.trial import Reader, Tried, try_many, try_one

QUICK = (
    "archives sent", "idx", "cifar pickles", "ilsvrc devkit", "tables of data sets", "yaml grids", "published tables",
    "kept numbers", "stored states", "checkpoints", "server desk", "server inbox",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_a_few_changed_files(tmp_path, name):
    tried = try_many(READERS[name], tmp_path, range(12))
    assert not tried.failures and tried.inputs == 12 == tried.read + tried.refused


@pytest.mark.soak
@pytest.mark.parametrize("name", READERS)
def test_changed_files_for_every_reader(tmp_path, name):
    tried = try_many(READERS[name], tmp_path, range(1000, 1200), limit=30)
    assert not tried.failures and tried.inputs


def tried(tmp_path, read, **more) -> list[str]:
    """What is said of a reader."""
    (tmp_path / "a.txt").write_text("abc")
    found = Tried()
    reader = Reader("own", lambda folder: [folder / "a.txt"], read, **more)
    for seed in range(20):
        try_one(reader, tmp_path, [tmp_path / "a.txt"], "abc", seed, found)
    assert (tmp_path / "a.txt").read_text() == "abc" and found.inputs == 20
    return found.failures


def refused(text):
    def read(folder):
        raise ValueError(text.format(folder))

    return read


def test_the_harness_sees_what_is_wrong(tmp_path):
    assert not tried(tmp_path, refused("{}/a.txt: no"))
    assert "does not name the file" in tried(tmp_path, refused("no"))[0]
    assert "not one line" in tried(tmp_path, refused("{}/a.txt:\nno"))[0]
    assert "KeyError" in tried(tmp_path, lambda folder: {}["a"])[0]
    whole = "as if it were sound"
    assert whole in tried(tmp_path, lambda folder: (folder / "a.txt").read_bytes(), sealed=True)[0]
