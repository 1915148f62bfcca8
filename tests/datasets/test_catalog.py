"""The table of data sets: every row through the same checks, and a made-up source as a worked example."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PIL import Image

from scail.cli.reference import DatasetsCommand
from scail.datasets import DATASETS, Dataset, DataSettings, load_dataset, load_part
from scail.datasets.catalog import CatalogRow, is_embedded

SOURCE = """
from scail.datasets.listing import Listing, hold_out
from scail.datasets.scan import images_in


def load(place, settings):
    if place is None:
        return None
    files = {shape: [path for path in images_in(place) if shape in path] for shape in ("circle", "square")}
    return Listing("shapes", tuple(files), *hold_out(files, 1, settings.split_seed), split="one a class held out")
"""


@pytest.fixture(autouse=True)
def empty_places(tmp_path, monkeypatch):
    """No data sets, and empty caches."""
    import datasets
    from huggingface_hub import constants

    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCAIL_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "prepared")


def test_a_new_data_set_is_its_file_and_one_row(tmp_path, monkeypatch, capsys):
    (tmp_path / "made_up_shapes.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    row = CatalogRow("circles and squares", "made_up_shapes:load", "draw them into {place}")
    monkeypatch.setitem(DATASETS, "shapes", row)
    DatasetsCommand()()
    assert ["shapes", "circles", "and", "squares"] in [line.split() for line in capsys.readouterr().out.splitlines()]

    place = tmp_path / "data" / "shapes"
    with pytest.raises(ValueError, match=rf"^shapes: not in {place}. To get it: draw them into {place}. SCAIL_DATA"):
        load_dataset("shapes")

    place.mkdir(parents=True)
    for n, shape in enumerate(["circle", "square"] * 3):
        Image.new("RGB", (12, 12), (40 * n, 0, 0)).save(place / f"{shape}-{n}.png")
    dataset = load_dataset("shapes", DataSettings(image_size=8))
    assert dataset.name == "shapes" and dataset.class_names == ("circle", "square") and dataset.shape == (3, 8, 8)
    assert dataset.train.labels.tolist() == [0, 0, 1, 1] and dataset.test.labels.tolist() == [0, 1]
    assert dataset.split == "one a class held out" and any("its images are listed in" in note for note in dataset.notes)
    tuning = load_dataset("shapes", DataSettings(image_size=8, tune=True))
    assert tuning.train.labels.tolist() == [0, 1] == tuning.test.labels.tolist()

    monkeypatch.chdir(tmp_path / "data")  # a folder of loose images has its name: it is still the row that loads it
    split, names, mirror = load_part("shapes", DataSettings(), test=False)
    assert split.labels.tolist() == [0, 0, 1, 1] and names == ("circle", "square") and mirror


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_embedded_or_says_how_to_get_it(name, tmp_path):
    if is_embedded(name):
        assert isinstance(load_dataset(name, DataSettings(classes=2, images_per_class=2)), Dataset)
    else:
        with pytest.raises(ValueError, match=f"{name}: not in {tmp_path / 'data' / name}.* To get it: "):
            load_dataset(name)


def test_the_table_is_read_without_torch():
    script = "import sys; from scail.datasets import DATASETS; print(len(DATASETS), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(DATASETS)), "False"]
