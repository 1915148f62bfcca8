"""What is flushed, in which order, and that nothing that must survive is written in another way."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

import scail
from scail.storage.flushing import flush, flush_below, make_folder

PACKAGE = Path(scail.__file__).parent


@pytest.fixture
def flushed(monkeypatch):
    """The paths that are flushed, in order."""
    found, real = list[Path](), os.fsync

    def fsync(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_folders_are_made_with_their_names_on_the_disk(tmp_path, flushed):
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir() and flushed == [tmp_path, tmp_path / "a"]
    make_folder(tmp_path / "a" / "b")
    assert len(flushed) == 2
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="file"):
        make_folder(tmp_path / "file")


def test_all_that_is_below_is_flushed_before_what_it_is_in(tmp_path, flushed):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("x")
    (tmp_path / "y").write_text("y")
    (tmp_path / "elsewhere").symlink_to("/etc/hostname")
    flush_below(tmp_path)
    assert flushed == [tmp_path / "a" / "x", tmp_path / "a", tmp_path / "y", tmp_path]


def test_a_file_system_that_flushes_names_by_itself_is_no_error_and_a_broken_one_is(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("x")
    for number, of_folder in ((errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)):

        def fails(descriptor: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match=re.escape(str(tmp_path / "x"))):
            flush(tmp_path / "x")
        if of_folder:
            flush(tmp_path)
        else:
            with pytest.raises(OSError, match=re.escape(str(tmp_path))):
                flush(tmp_path)


_WRITES = re.compile(
    r"\.(?:write_bytes|write_text|replace|rename)\((?![\"'])|open\([^)\n]*[\"'][wax]b?[\"']|copyfile\("
)
_ELSEWHERE = {
    "storage/atomic.py": "the one atomic write",
    "storage/sealed.py": "writes what is aside",
    "storage/store.py": "writes what is aside",
    "storage/holdings.py": "takes a state away in one step; nothing counts on that",
    "storage/remote_store.py": "what is behind a URL has its own way",
    "storage/url_shelf.py": "what is behind a URL has its own way",
    "classifier/sharing.py": "a copy of a model that is on its way, in a folder that does not last",
    "server/desk.py": "writes what is aside, and what is said of a job",
    "results/run_directory.py": "lines and pictures of a run that goes on: flushed at its end",
    "datasets/images/packed.py": "a packed copy is complete: one name, flushed",
    "datasets/faces/crop.py": "the log of what is unusual: a line too few is written again",
    "networks/int8.py": "in a folder of the system's for what does not last",
    "benchmark/two_ranks.py": "in a folder that does not last",
    "cli/unknown.py": "copies of a user's pictures, to be looked at",
}


def test_who_writes_without_the_one_atomic_write_is_known():
    """Whoever writes in another way says here why that may be lost."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for line in path.read_text().splitlines():
            text = re.sub(r"\breplace\((?!\w+(\.\w+)* / )[^)]*", "", line)  # of texts and of dataclasses
            if _WRITES.search(text) and not re.search(r"(?<![.\w])write_(bytes|text)\(", text):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == _ELSEWHERE.keys()
