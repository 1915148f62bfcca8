"""One process at a time, and nobody else's folder."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from scail.storage.atomic import aside_name
from scail.storage.lock import LOCK, claim, locked

TAKEN = ValueError("another is at it")


def test_who_does_not_wait_gets_the_error_at_once(tmp_path):
    with locked(tmp_path / LOCK, TAKEN):
        began = time.monotonic()
        with pytest.raises(ValueError, match="another is at it"), locked(tmp_path / LOCK, TAKEN):
            pass
        assert time.monotonic() - began < 0.4
    with locked(tmp_path / LOCK, TAKEN):
        pass


def test_an_error_inside_releases_it(tmp_path):
    with pytest.raises(OSError, match="of the work"), locked(tmp_path / LOCK):
        raise OSError("of the work")
    with locked(tmp_path / LOCK, TAKEN):
        pass


class GivenUp(Exception):
    pass


def test_who_waits_looks_twice_a_second_and_may_give_up(tmp_path):
    looked: list[float] = []

    def look() -> None:
        looked.append(time.monotonic())
        if len(looked) == 3:
            raise GivenUp

    with locked(tmp_path / LOCK), pytest.raises(GivenUp), locked(tmp_path / LOCK, waiting=look):
        pass
    assert 0.8 < looked[2] - looked[0] < 3


HOLD = """
import sys, time
from pathlib import Path
from scail.storage.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_who_waits_gets_it_when_the_holder_dies(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / LOCK)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        looked: list[None] = []
        with locked(tmp_path / LOCK, waiting=lambda: (looked.append(None), holder.kill())):
            assert looked and holder.wait() != 0


def claimed(folder: Path, **options) -> None:
    foreign = "holds {name!r} and is not a box; give a new one"
    claim(folder, f"--out {folder}", {"box.json", "lid.json"}, foreign, **options)


@pytest.mark.parametrize(
    "inside", [(), (LOCK,), ("box.json", "letter"), ("letter", "lid.json"), (LOCK, ".scail-box.json." + "0" * 32)]
)
def test_a_folder_of_ours_or_of_nobody_is_claimed(tmp_path, inside):
    (tmp_path / "box").mkdir()
    for name in inside:
        (tmp_path / "box" / name).write_text("")
    claimed(tmp_path / "box")


def test_a_new_folder_is_made_if_it_should_be(tmp_path):
    claimed(tmp_path / "a" / "b", make=False)
    assert not (tmp_path / "a").exists()
    claimed(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_somebody_elses_folder_is_left_alone(tmp_path):
    (tmp_path / "letter").write_text("dear all")
    aside_name(tmp_path / "box.json").write_text("")
    with pytest.raises(UnicodeError, match=r"^--out .*: holds 'letter' and is not a box; give a new one$"):
        claimed(tmp_path, error=UnicodeError)
    claimed(tmp_path, own=lambda name: name == "letter")
    with pytest.raises(ValueError, match="letter: is a file; give a directory"):
        claimed(tmp_path / "letter")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="gone: is a link to nothing; give a directory"):
        claimed(tmp_path / "gone")
    assert (tmp_path / "letter").read_text() == "dear all"


def test_a_folder_that_another_process_is_just_making_is_ours(tmp_path):
    (tmp_path / "part").write_text("")

    def meanwhile(name: str) -> bool:
        (tmp_path / "box.json").write_text("")
        return False

    claimed(tmp_path, own=meanwhile)
