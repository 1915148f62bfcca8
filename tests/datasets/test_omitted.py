"""Nothing in a folder of images is left out in silence."""

from __future__ import annotations

import sys

import pytest
from PIL import Image

from scail.classifier.answering import read_picture
from scail.config import DataSettings
from scail.datasets import load_dataset, load_part
from scail.datasets.images import decode
from tests.cli.test_learn import QUICK, run, write_images

__all__ = ["run"]  # a fixture


@pytest.fixture
def folder(tmp_path):
    root = write_images(tmp_path / "data", "ant", "bee")
    for name in ("ant/film.mov", "ant/notes.txt", "ant/._0.png", "ant/Thumbs.db", "ant/.DS_Store", "bird/song.mp3"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"no image")
    return root


def notes_of(root, nested=False):
    told = []
    _, names, _ = load_part(str(root), DataSettings(), False, nested, told.append)
    return names, "\n".join(told)


def test_what_is_left_out_is_counted_and_the_first_is_named(folder):
    names, said = notes_of(folder)
    assert names == ("ant", "bee")
    assert "1 class folder(s) have no image that can be read, and are left out: bird (.mp3)" in said
    assert "3 file(s) are left out, which are not images by their endings: 1 .mov, 1 .txt, 1 .mp3" in said
    assert f"the first: {folder / 'ant' / 'film.mov'}" in said
    assert "2 file(s) that the system left there (._*, Thumbs.db) are ignored" in said
    assert "bird" in " ".join(load_dataset(str(folder), DataSettings(image_size=8)).notes)  # scail run tells it, too


def test_images_outside_the_class_folders_are_counted(tmp_path):
    root, parts = write_images(tmp_path / "data", "ant", "bee"), tmp_path / "parts"
    Image.new("RGB", (8, 8)).save(root / "loose.png")
    assert f"1 image(s) outside the class folders are left out; the first: {root / 'loose.png'}" in notes_of(root)[1]
    for part in ("train", "test", "val"):
        write_images(parts / part, "ant", each=2)
    first = parts / "val" / "ant" / "0.png"
    assert f"2 image(s) outside the class folders are left out; the first: {first}" in notes_of(parts)[1]
    Image.new("RGB", (8, 8)).save(parts / "train" / "loose.png")
    assert "3 image(s) outside" in notes_of(parts)[1]


def test_hidden_images_and_empty_folders_are_told(tmp_path):
    root = write_images(tmp_path / "data", "ant", "bee")
    write_images(root, ".old", each=3)
    (root / "ant" / "0.png").rename(root / "ant" / ".0.png")
    (root / "empty").mkdir()
    names, said = notes_of(root)
    assert names == ("ant", "bee") and "1 class folder(s) have no image that can be read" in said
    assert "are left out: empty" in said
    assert "4 hidden image(s) are left out (a name begins with a dot); the first: " in said


def test_one_image_is_no_data_to_learn(tmp_path):
    root = write_images(tmp_path / "data", "ant")
    with pytest.raises(ValueError, match=r"0\.png: one image, and nothing says what it shows; expected a folder"):
        notes_of(root / "ant" / "0.png")


def test_sub_folders_as_classes_are_told_by_their_own_names(tmp_path):
    root = write_images(tmp_path / "data", "shoes/red")
    for name in ("shoes/notes.txt", "shoes/green/film.mov", "hats/blue/film.mov"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"no image")
    names, said = notes_of(root, nested=True)
    assert names == ("shoes/red",) and "2 class folder(s) have no image that can be read" in said
    assert "are left out: hats/blue (.mov), shoes/green (.mov)" in said


def test_a_folder_of_images_alone_has_nothing_to_say(tmp_path):
    assert notes_of(write_images(tmp_path / "data", "ant"))[1] == ""


def test_sub_folders_are_told_or_become_classes(tmp_path):
    root = write_images(tmp_path / "data", "ant")
    write_images(root / "shoes", "red", "blue")
    names, said = notes_of(root)
    assert names == ("ant", "shoes") and "images in sub-folders of shoes (blue, red) count as shoes" in said
    assert "--sub-folders classes" in said
    assert notes_of(root, nested=True) == (("ant", "shoes/blue", "shoes/red"), "")


def test_a_class_with_test_images_only_is_told_and_left_out_of_a_run(run, tmp_path):
    root, without = tmp_path / "d", tmp_path / "without"
    for place, classes in (
        (root / "train", "bd"),
        (root / "test", "abcde"),
        (without / "train", "bd"),
        (without / "test", "bd"),
    ):
        for seed, name in enumerate(classes):
            write_images(place, name, each=3, seed=seed if place.name == "train" else ord(name))
    told = "3 class(es) have test images but no training images: a, c, e"
    found, expected = (load_dataset(str(place), DataSettings(image_size=8)) for place in (root, without))
    assert found.class_names == ("b", "d") and any(note == f"{told}; they are left out" for note in found.notes)
    assert found.fingerprint == expected.fingerprint and not any("left out" in note for note in expected.notes)
    code, _, error = run("learn", tmp_path / "m", root, *QUICK)
    assert code == 0 and told in error
    code, said, error = run("evaluate", tmp_path / "m", root)
    assert code == 0 and said.startswith("6 images: top-1") and told not in error
    assert "9 images of 3 class(es) that the model never learned" in said
    code, _, error = run("learn", tmp_path / "m", root, "--classes", "a")
    assert code == 2 and f"--classes a: {root} has no training images of them" in error


def test_learn_tells_and_counts_what_it_skips(folder, run, tmp_path):
    (folder / "ant" / "bad.jpg").write_bytes(b"no image")
    code, _, error = run("learn", tmp_path / "m", folder, *QUICK, "--broken", "skip")
    assert code == 0 and "bird (.mp3)" in error
    assert f"1 of 11 images cannot be read and are left out, the first: {folder / 'ant' / 'bad.jpg'}" in error
    code, said, error = run("predict", tmp_path / "m", folder / "bee", folder / "ant", "--top", "1")
    assert code == 2 and "2 file(s) are left out" in error and len(said.splitlines()) == 10


def test_heic_and_avif_are_read_and_the_message_names_the_extra(tmp_path, monkeypatch):
    heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed")
    picture = Image.new("RGB", (32, 16), (200, 30, 30))
    (tmp_path / "data" / "a").mkdir(parents=True)
    heif.from_pillow(picture).save(tmp_path / "data" / "a" / "x.heic")
    found = read_picture(tmp_path / "data" / "a" / "x.heic")
    assert found.shape == (16, 32, 3) and abs(found.mean((0, 1)) - (200, 30, 30)).max() < 12
    if ".avif" in decode.ENDINGS:
        picture.save(tmp_path / "data" / "a" / "y.avif")
        assert read_picture(tmp_path / "data" / "a" / "y.avif").shape == (16, 32, 3)
    assert len(load_part(str(tmp_path / "data"), DataSettings(), False)[0]) >= 1
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    decode._read_heif.cache_clear()
    with pytest.raises(decode.BrokenImage, match=r"pip install 'scail\[heif\]'"):
        read_picture(tmp_path / "data" / "a" / "x.heic")
    monkeypatch.setattr(decode, "ENDINGS", decode.ENDINGS - decode.HEIF)
    monkeypatch.setattr("scail.datasets.scan.ENDINGS", decode.ENDINGS - decode.HEIF)
    (tmp_path / "data" / "b").mkdir()
    picture.save(tmp_path / "data" / "b" / "z.png")
    assert "1 .heic" in notes_of(tmp_path / "data")[1] and "pip install 'scail[heif]'" in notes_of(tmp_path / "data")[1]
