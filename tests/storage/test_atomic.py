"""Files are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scail.storage.atomic import ASIDE, aside, aside_name, sweep, write_bytes, write_text
from scail.storage.flushing import Flushed


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_nothing_is_left_aside(tmp_path):
    write_text(tmp_path / "a", "old")
    write_text(tmp_path / "a", "new: ü\n")
    assert (tmp_path / "a").read_bytes() == "new: ü\n".encode()
    write_bytes(tmp_path / "a", b"\0", flushed=Flushed.NOTHING)
    assert (tmp_path / "a").read_bytes() == b"\0" and names(tmp_path) == ["a"]


def test_an_error_leaves_the_old_file(tmp_path):
    write_text(tmp_path / "a", "old")
    with pytest.raises(KeyError), aside(tmp_path / "a") as begun:
        begun.write_text("half")
        assert (tmp_path / "a").read_text() == "old"
        raise KeyError
    assert (tmp_path / "a").read_text() == "old" and names(tmp_path) == ["a"]


KILLED = """
import os, signal, sys
from pathlib import Path
from scail.storage.atomic import aside
with aside(Path(sys.argv[1])) as begun:
    begun.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_in_the_middle_it_leaves_the_old_file_and_what_a_sweep_takes(tmp_path):
    write_text(tmp_path / "a", "old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")])
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "a").read_text() == "old"
    (left,) = (path for path in names(tmp_path) if path != "a")
    assert ASIDE.fullmatch(left) and left.startswith(".scail-a.")
    sweep(tmp_path)
    assert names(tmp_path) == ["a"]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from scail.storage.atomic import told, write_bytes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # large writes fail, as on a full disk
try:
    write_bytes(Path(sys.argv[1]), bytes(5000))
    sys.exit("no error")
except OSError as error:
    assert error.strerror == "File too large" and error.filename == sys.argv[1], error
    assert "free some space there" in told(error), told(error)
"""


def test_on_a_full_disk_the_old_file_stays(tmp_path):
    write_text(tmp_path / "a", "old")
    subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path / "a")], check=True)
    assert (tmp_path / "a").read_text() == "old" and names(tmp_path) == ["a"]


def test_the_content_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    seen, real = [], os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        content = path.read_bytes() if path.is_file() else names(path)
        seen.append((content, {name for name in names(tmp_path) if not ASIDE.fullmatch(name)}))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_bytes(tmp_path / "a", b"12345")
    assert seen == [(b"12345", set()), (["a"], {"a"})]
    write_bytes(tmp_path / "b", b"12345", flushed=Flushed.CONTENT)
    assert seen[2:] == [(b"12345", {"a"})]
    write_bytes(tmp_path / "c", b"12345", flushed=Flushed.NOTHING)
    assert len(seen) == 3
    with aside(tmp_path / "folder") as begun:
        begun.mkdir()
        (begun / "x").write_bytes(b"1")
    there = {"a", "b", "c"}
    assert seen[3:] == [(b"1", there), (["x"], there), (sorted({*there, "folder"}), {*there, "folder"})]


def test_of_two_that_make_one_folder_the_first_stays(tmp_path):
    for content in ("first", "second"):
        with aside(tmp_path / "folder") as begun:
            begun.mkdir()
            (begun / "x").write_text(content)
    assert (tmp_path / "folder" / "x").read_text() == "first" and names(tmp_path) == ["folder"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotADirectoryError), aside(tmp_path / "file") as begun:
        begun.mkdir()
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "a\nb", "🐈" * 63])
def test_a_file_may_have_any_name_that_the_system_takes(tmp_path, name):
    assert ASIDE.fullmatch(aside_name(tmp_path / name).name)
    write_text(tmp_path / name, "x")
    assert names(tmp_path) == [name]


def test_a_sweep_takes_nobody_elses_files(tmp_path):
    others = ["a", ".hidden", ".scail-", f".scail-{'0' * 31}", f".{'0' * 32}", f".scail-x.{'g' * 32}", "scail-x"]
    ours = [f".scail-{'0' * 32}", f".scail-manifest.json.{'a' * 32}"]  # the first as version 0.1 named them
    for name in (*others, *ours):
        (tmp_path / name).write_text("")
    sweep(tmp_path)
    assert names(tmp_path) == sorted(others)
