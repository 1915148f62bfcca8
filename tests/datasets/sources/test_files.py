"""Image folders and list files of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scail.cli.main import main
from scail.datasets import DataSettings, load_dataset
from scail.datasets.images.decode import middle_square, read_region


def draw(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (20, 16)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    for n in range(5):
        draw(tmp_path / "pets" / "cat" / f"{n}.png", (250, 10 * n, 0))
        draw(tmp_path / "pets" / "dog" / "deep" / f"{n}.PNG", (0, 10 * n, 250))
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("not an image")
    return tmp_path / "pets"


def test_a_folder_of_classes_with_a_share_held_out(folder):
    dataset = load_dataset(str(folder), DataSettings(image_size=16))
    assert dataset.name == "pets" and dataset.class_names == ("cat", "dog") and dataset.mirror
    assert dataset.shape == (3, 16, 16)
    assert dataset.train.labels.tolist() == [0] * 4 + [1] * 4 and dataset.test.labels.tolist() == [0, 1]
    seen = {tuple(image[:, 0, 0].tolist()) for split in (dataset.train, dataset.test) for image in split.images}
    assert len(seen) == 10  # every image once, in train or in test
    assert load_dataset(str(folder), DataSettings(image_size=16)).fingerprint == dataset.fingerprint
    assert load_dataset(str(folder)).shape == (3, 64, 64)


@pytest.mark.parametrize("name", ["test", "val"])
def test_a_folder_with_its_own_test_images(tmp_path, name):
    for part, count in (("train", 3), (name, 2)):
        for n in range(count):
            draw(tmp_path / part / "a" / f"{n}.png", (n, 0, 0))
            draw(tmp_path / part / "b" / f"{n}.png", (0, n, 0))
    dataset = load_dataset(str(tmp_path), DataSettings(image_size=8))
    assert (len(dataset.train), len(dataset.test)) == (6, 4)


def test_a_list_file_with_paths_that_hold_spaces(folder):
    lines = [
        f"{label}/{'deep/' if label == 'dog' else ''}{n}.{'PNG' if label == 'dog' else 'png'} {label}"
        for label in ("cat", "dog")
        for n in range(5)
    ]
    (folder / "my cats").mkdir()
    draw(folder / "my cats" / "x y.png", (1, 2, 3))
    (folder / "train.lst").write_text("\n".join([*lines, "", "my cats/x y.png cat"]))
    dataset = load_dataset(str(folder / "train.lst"), DataSettings(image_size=8))
    assert len(dataset.train) + len(dataset.test) == 11
    (folder / "val.lst").write_text("cat/0.png cat\ndog/deep/0.PNG dog\n")
    dataset = load_dataset(str(folder / "train.lst"), DataSettings(image_size=8))
    assert (len(dataset.train), len(dataset.test)) == (11, 2)


def test_every_kind_of_image_becomes_colour(tmp_path):
    base = Image.new("RGB", (12, 12), (200, 100, 50))
    kinds = {
        "l.png": base.convert("L"),
        "rgba.png": base.convert("RGBA"),
        "cmyk.jpg": base.convert("CMYK"),
        "p.gif": base.convert("P"),
    }
    for name, image in kinds.items():
        image.save(tmp_path / name)
        decoded = read_region(tmp_path / name, middle_square, 8)
        assert decoded.shape == (8, 8, 3) and decoded.dtype == np.uint8
        assert abs(int(decoded.mean()) - (124 if name == "l.png" else 116)) < 12, name
    Image.fromarray(np.full((12, 12), 51400, np.uint16)).save(tmp_path / "deep.png")
    assert (read_region(tmp_path / "deep.png", middle_square, 8) == 200).all()  # 16 bits: 51400 / 257


def test_exif_rotation_is_applied(tmp_path):
    image = Image.new("RGB", (16, 16))
    image.paste((255, 0, 0), (0, 0, 16, 8))  # red above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    image.save(tmp_path / "turned.png", exif=exif)
    decoded = read_region(tmp_path / "turned.png", middle_square, 16)
    assert decoded[12, 8, 0] > 200 and decoded[3, 8, 0] < 50


def test_bad_files_are_named(folder, tmp_path):
    broken = folder / "cat" / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff\xe0 cut")
    with pytest.raises(ValueError, match=r"broken.jpg: cannot be read"):
        load_dataset(str(folder), DataSettings(image_size=8))
    broken.unlink()
    draw(folder / "bird" / "only.png", (1, 1, 1))
    with pytest.raises(ValueError, match="'bird' has 1 image"):
        load_dataset(str(folder), DataSettings(image_size=8))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images found"):
        load_dataset(str(tmp_path / "empty"))
    listed = tmp_path / "x.lst"
    listed.write_text("lonely\n")
    with pytest.raises(ValueError, match=r"line 1: 'lonely'"):
        load_dataset(str(listed))
    listed.write_text("a.png 1\nb.png 1\n")
    with pytest.raises(ValueError, match="no such image"):
        load_dataset(str(listed))
    with pytest.raises(ValueError, match="image size is 4"):
        load_dataset(str(folder), DataSettings(image_size=4))


def test_a_run_on_a_folder(folder, tmp_path, capsys):
    for name, colour in {"fox": (250, 250, 0), "owl": (0, 250, 0)}.items():
        for n in range(5):
            draw(folder / name / f"{n}.png", colour)
    arguments = [
        "run",
        "--dataset",
        folder,
        "--states",
        2,
        "--epochs",
        1,
        "--image-size",
        16,
        "--methods",
        "ft,scail",
        "--memory",
        4,
    ]
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in (*arguments, "--jobs", 1, "--out", tmp_path / "run", "--store", tmp_path / "store")])
    assert end.value.code == 0 and "pets: 4 classes" in capsys.readouterr().out


def test_a_list_file_from_windows(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (16, 16), (50 * i, 9, 9)).save(tmp_path / name / f"{i}.png")
    lines = [f"{name}/{i}.png {label}" for label, name in enumerate("ab") for i in range(3)]
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    dataset = load_dataset(str(tmp_path / "list.txt"), DataSettings(image_size=16))
    assert (len(dataset.train), len(dataset.test)) == (4, 2)


def test_to_tune_a_folders_own_test_images_are_left_alone(tmp_path):
    for part, count in (("train", 10), ("test", 4)):
        for name in ("cat", "dog"):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                colour = (100 if part == "test" else 30, 10 * i, 90 if name == "cat" else 9)
                Image.new("RGB", (16, 16), colour).save(tmp_path / part / name / f"{i}.png")
    settings = DataSettings(image_size=16, tune=True, images_per_class=6)
    dataset = load_dataset(str(tmp_path), settings)
    assert (len(dataset.train), len(dataset.test)) == (12, 4)  # 2 of 10 held out, then 6 of the other 8
    whole = load_dataset(str(tmp_path), DataSettings(image_size=16))
    tested = {image.numpy().tobytes() for image in whole.test.images}
    assert not tested & {image.numpy().tobytes() for image in dataset.test.images}
