"""Several grids that add to one folder of numbers at the same time: nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scail.results.archive import Archive, key_of_configuration
from scail.results.run_directory import RunDirectory
from scail.storage.lock import LOCK
from tests.forked import Forked

RUN = Path(__file__).parents[1] / "data" / "version_0_1" / "run"
WRITERS = 4


def rows() -> list[Any]:
    return RunDirectory(RUN).rows()


def configs() -> list[dict[str, Any]]:
    """Configurations whose files would all have the same name, and one of another name."""
    config = json.loads((RUN / "config.json").read_text(encoding="utf-8"))
    networks = ("resnet8", "resnet20", "resnet18")
    found = [config | {"experiment": config["experiment"] | {"network": network}} for network in networks]
    return [*found, config | {"memory": 9}]


def pairs_of(writer: int) -> set[tuple[str, str | None]]:
    """What this writer measured: a part of the methods, none of them twice."""
    pairs = sorted({(row.method, row.select) for row in rows() if row.method != "full"}, key=str)
    return set(pairs[writer::WRITERS])


def write() -> None:
    folder, writer, start = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    mine = [row for row in rows() if (row.method, row.select) in pairs_of(writer)]
    archive, todo = Archive(folder), configs()
    print("ready", flush=True)
    while not start.exists():
        time.sleep(0.001)
    for config in todo[writer:] + todo[:writer]:  # each begins elsewhere
        archive.add(config, mine, 1.0)


def kept(folder: Path) -> dict[str, Counter[tuple[str, str | None, int]]]:
    """How often each state of each method is there, by configuration."""
    archive = Archive(folder)
    return {
        one.configuration["key"]: Counter((row.method, row.select, row.state) for row in one.rows)
        for one in archive.all()
    }


@pytest.mark.parametrize("repetitions", [3, pytest.param(100, marks=pytest.mark.soak)])
def test_four_writers_at_once_lose_nothing(tmp_path, repetitions):
    expected = Counter((row.method, row.select, row.state) for row in rows() if row.method != "full")
    assert len({pair[:2] for pair in expected}) > 2 * WRITERS
    for n in range(repetitions):
        folder, start = tmp_path / f"kept-{n}", tmp_path / f"start-{n}"
        writers = [Forked(str(folder), str(writer), str(start), run=write) for writer in range(WRITERS)]
        assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * WRITERS
        start.touch()
        for writer in writers:
            said, _ = writer.communicate()
            assert writer.returncode == 0, said
        assert kept(folder) == {key_of_configuration(config): expected for config in configs()}
        assert len(list(folder.glob("*.jsonl"))) == len(configs())


def test_the_folder_holds_numbers_and_a_lock_and_what_was_left_is_swept(tmp_path):
    (tmp_path / f".scail-digits.jsonl.{'0' * 32}").write_text("half")
    (tmp_path / "mine.txt").write_text("mine")
    Archive(tmp_path).add(configs()[0], rows(), 1.0)
    assert {path.name for path in tmp_path.iterdir()} == {LOCK, "digits-z3-b12-seed1.jsonl", "mine.txt"}


def test_to_look_writes_nothing(tmp_path):
    Archive(tmp_path / "kept").find(configs()[0])
    assert not (tmp_path / "kept").exists()
    Archive(tmp_path / "kept").add(configs()[0], [], 1.0)
    assert not (tmp_path / "kept").exists()


def test_a_file_of_another_configuration_under_the_same_name_is_never_replaced(tmp_path):
    """Two folders were joined: the second of two files of one configuration stands under another name."""
    first, second = configs()[:2]
    for n, name in ((0, "digits-z3-b12-seed1"), (1, "digits-z3-b12-seed1-3")):
        mine = [row for row in rows() if (row.method, row.select) in pairs_of(n)]
        Archive(tmp_path / f"{n}").add(first, mine, 1.0)
        (tmp_path / "kept").mkdir(exist_ok=True)
        shutil.copy(tmp_path / f"{n}" / "digits-z3-b12-seed1.jsonl", tmp_path / "kept" / f"{name}.jsonl")
    Archive(tmp_path / "kept").add(second, rows(), 1.0)
    found = kept(tmp_path / "kept")
    assert found.keys() == {key_of_configuration(one) for one in (first, second)}
    assert {pair[:2] for pair in found[key_of_configuration(first)]} >= pairs_of(0) | pairs_of(1)


def test_files_of_one_configuration_are_one_and_become_one(tmp_path):
    """As git joins folders: each grid named its file as if it were alone."""
    config, all_rows = configs()[0], rows()
    for n, writer in enumerate((0, 1)):
        mine = [row for row in all_rows if (row.method, row.select) in pairs_of(writer)]
        Archive(tmp_path / f"{n}").add(config, mine, 1.0)
        (tmp_path / "joined").mkdir(exist_ok=True)
        shutil.copy(next((tmp_path / f"{n}").glob("*.jsonl")), tmp_path / "joined" / f"grid-{n}.jsonl")
    (counts,) = kept(tmp_path / "joined").values()
    assert set(counts.values()) == {1} and {pair[:2] for pair in counts} == pairs_of(0) | pairs_of(1)
    assert Archive(tmp_path / "joined").find(config).pairs == pairs_of(0) | pairs_of(1)
    Archive(tmp_path / "joined").add(config, all_rows, 1.0)
    assert [path.name for path in (tmp_path / "joined").glob("*.jsonl")] == ["grid-0.jsonl"]
    (counts,) = kept(tmp_path / "joined").values()
    assert counts == Counter((row.method, row.select, row.state) for row in all_rows)


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path, monkeypatch):
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scail.results.archive.write_text", full)
    with pytest.raises(ValueError, match=r"--results .*: cannot write there: .*No space left on device"):
        Archive(tmp_path).add(configs()[0], rows(), 1.0)


def test_what_is_kept_is_on_the_disk(tmp_path, monkeypatch):
    import os

    flushed, real = [], os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    Archive(tmp_path).add(configs()[0], rows(), 1.0)
    assert flushed[0].startswith(".scail-digits-z3-b12-seed1.jsonl.") and flushed[-1] == tmp_path.name
