"""A model that has seen two kinds of photographs, and is shown others."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scail.cli.main import main
from scail.networks.pretrained import has_pretrained

pytestmark = pytest.mark.skipif(
    not has_pretrained("efficientnet-lite0"), reason="the pretrained weights are not installed"
)


def crops(place: Path, name: str, count: int) -> None:
    """Squares out of a photograph of scikit-image."""
    data = pytest.importorskip("skimage.data", reason="scikit-image is not installed: its photographs are needed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        photo = getattr(data, name)()
    draw = np.random.RandomState(0)
    (place / name).mkdir(parents=True)
    for i in range(count):
        side = int(min(photo.shape[:2]) * draw.uniform(0.6, 0.9))
        top, left = (draw.randint(0, size - side + 1) for size in photo.shape[:2])
        Image.fromarray(photo[top : top + side, left : left + side]).save(place / name / f"{i}.png")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("unknown")
    for name in ("chelsea", "coffee"):
        crops(place / "known", name, 8)
    for name in ("rocket", "astronaut"):
        crops(place / "new", name, 4)
    with pytest.raises(SystemExit) as end:
        main(["learn", str(place / "model"), str(place / "known"), "--image-size", "96", "--memory", "0"])
    assert not end.value.code
    return place


def call(capsys, *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def test_the_unknown_is_sorted_and_ready_to_be_named(place, capsys, tmp_path):
    code, out, _ = call(capsys, "unknown", place / "model", place, "--out", tmp_path / "sorted")
    assert code == 0 and "8 of 24 pictures are unknown" in out and "16 are known" in out
    copied = [len(list(group.iterdir())) for group in sorted((tmp_path / "sorted").iterdir())]
    assert sum(copied) == 8 and copied[0] >= 3 and copied == sorted(copied, reverse=True)
    code, out, _ = call(capsys, "unknown", place / "model", place / "new", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    kinds = [{Path(path).parent.name for path in group["paths"]} for group in found]
    assert all(len(names) == 1 for names in kinds) and {*kinds[0], *kinds[-1]} <= {"rocket", "astronaut"}
    assert [len(group["paths"]) for group in found] == copied
    (tmp_path / "sorted" / "group-1").rename(tmp_path / "sorted" / "rocket")
    shutil.copytree(place / "model", tmp_path / "model")
    code, out, _ = call(capsys, "learn", tmp_path / "model", tmp_path / "sorted", "--classes", "rocket")
    assert code == 0 and "3 classes" in out


def test_predict_says_unknown(place, capsys):
    one, other = place / "new" / "astronaut" / "0.png", place / "known" / "coffee" / "0.png"
    code, out, _ = call(capsys, "predict", place / "model", one, other, "--unknown")
    assert code == 0 and out.splitlines()[0].endswith("\tunknown") and "\tcoffee" in out.splitlines()[1]
    code, out, _ = call(capsys, "predict", place / "model", one, other, "--json")
    assert [json.loads(line)["unknown"] for line in out.splitlines()] == [True, False]


def test_nothing_unknown_and_bad_input(place, capsys, tmp_path):
    code, out, _ = call(capsys, "unknown", place / "model", place / "known")
    assert code == 0 and out.startswith("0 of 16 pictures are unknown, in 0 group(s); 16 are known")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("mine")
    code, _, error = call(capsys, "unknown", place / "model", place / "new", "--out", tmp_path / "full")
    assert code == 2 and "is there already and not empty" in error
    (tmp_path / "broken.png").write_text("no image")
    code, out, error = call(capsys, "unknown", place / "model", place / "new", tmp_path / "broken.png")
    assert code == 2 and "8 of 9 pictures are unknown" in out and "1 of 9 images could not be read" in error
