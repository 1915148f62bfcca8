"""What a killed change leaves in a folder: the next command of any kind takes it away, or says so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scail.classifier.folder import locked, look, sweeping, tidy
from scail.classifier.in_folder import learn_into
from scail.cli.main import main
from tests.classifier.little import little, little_images


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    root = tmp_path_factory.mktemp("sweeping") / "model"
    learn_into(root, *little_images("a", "b"), make=lambda: little(memory=4, validation=0.5))
    learn_into(root, *little_images("c"))
    return root


@pytest.fixture
def folder(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "model"))


def leave(root: Path) -> list[Path]:
    """What a change leaves that was killed before or after it replaced the manifest."""
    (picture, *_) = sorted(root.glob("exemplars/*/*.png"))
    gone = root / "exemplars" / f"gone-{'0' * 12}"
    gone.mkdir()
    left = [gone / picture.name, picture.with_name(f"{'1' * 32}.png"), picture.with_name(f".scail-x.{'2' * 32}")]
    left += [root / f"network-{'3' * 32}.safetensors", root / f".scail-manifest.json.{'4' * 32}"]
    for path in left:
        shutil.copy(picture, path)
    return left


def files_in(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} - {"learn.lock"}


@pytest.mark.parametrize("command", ["info", "predict", "evaluate", "export"])
def test_a_command_that_reads_takes_away_what_was_left(folder, command, capsys):
    leave(folder)
    (folder / "notes.txt").write_text("somebody's")
    picture = sorted(folder.glob("exemplars/a-*/*.png"))[0]
    given = {"info": [], "predict": [str(picture)], "evaluate": [str(folder / "exemplars")]}.get(
        command, ["--onnx", str(folder.parent / "m.onnx")]
    )
    with pytest.raises(SystemExit):
        main([command, str(folder), *given])
    assert files_in(folder) == look(folder).manifest.files() | {"manifest.json", "notes.txt", "README.md"}
    assert "Traceback" not in capsys.readouterr().err


def test_what_another_process_is_just_writing_stays(folder):
    left = leave(folder)
    with locked(folder):
        assert tidy(folder) is None
    assert all(path.exists() for path in left)
    assert tidy(folder) is None
    assert not any(path.exists() for path in left)


def test_unfinished_trainings_and_folders_without_a_model_stay(folder):
    (folder / "unfinished").mkdir()
    (folder / "unfinished" / "x.safetensors").write_bytes(b"")
    leave(folder)
    tidy(folder)
    assert (folder / "unfinished" / "x.safetensors").exists()
    left = leave(folder)
    (folder / "manifest.json").unlink()
    assert tidy(folder) is None and all(path.exists() for path in left)


def test_what_cannot_be_taken_away_is_told(folder, monkeypatch):
    def read_only(root: Path, unfinished: bool) -> None:
        raise PermissionError(13, "Permission denied", str(root))

    monkeypatch.setattr(sweeping, "sweep", read_only)
    assert tidy(folder) is None
    left = leave(folder)
    assert f"{len(left)} files of a change that was killed cannot be removed (Permission denied)" in str(tidy(folder))


def test_half_of_an_export_goes_after_an_hour_with_the_next_one(folder, capsys):
    old, new, theirs = (
        folder.parent / name for name in (f".scail-m.{'1' * 32}", f".scail-m.{'2' * 32}", ".scail-m.txt")
    )
    for path in (old, new, theirs):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    with pytest.raises(SystemExit) as end:
        main(["export", str(folder), "--onnx", str(folder.parent / "m.onnx")])
    assert not end.value.code and not old.exists() and new.exists() and theirs.exists()
