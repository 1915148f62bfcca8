"""Without the extra `datasets`: folders of images are read, and what cannot be read says what to install."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from PIL import Image

from scail.config import DataSettings
from scail.datasets import load_dataset, load_part
from scail.datasets.images.packed import pack
from scail.datasets.places import NotHere

INSTALL = r"pip install 'scail\[datasets\]'"


@pytest.fixture(autouse=True)
def _without(monkeypatch, tmp_path):
    monkeypatch.setattr("scail.datasets.places.find_spec", lambda name: None)
    for name in ("datasets", "pyarrow", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)  # to import it is an error now
    monkeypatch.setenv("SCAIL_DATA", str(tmp_path / "data"))


@pytest.fixture
def photos(tmp_path):
    for c, name in enumerate("ab"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for n in range(3):
            image = Image.fromarray(np.full((9, 9, 3), 40 * (3 * c + n), np.uint8))
            image.save(tmp_path / "photos" / name / f"{n} é.png")
    return tmp_path / "photos"


def test_folders_and_lists_of_images_are_read(photos):
    split, names, _ = load_part(str(photos), DataSettings(image_size=9), test=False)
    assert names == ("a", "b") and len(split) == 6
    assert split.images.file(4).endswith("1 é.png")
    assert split.images.in_memory()[:, 0, 0, 0].tolist() == [0, 40, 80, 120, 160, 200]


def test_what_cannot_be_read_says_what_to_install(photos, tmp_path):
    for name in ("hf:owner/name", "cifar100", "ilsvrc"):
        with pytest.raises(NotHere, match=INSTALL):
            load_dataset(name)
    (tmp_path / "table").mkdir()
    (tmp_path / "table/train.parquet").touch()
    with pytest.raises(ValueError, match=INSTALL):
        load_dataset(str(tmp_path / "table"))
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed/scail.json").write_text("{}")
    with pytest.raises(ValueError, match=INSTALL):
        load_dataset(str(tmp_path / "packed"))
    found = load_dataset(str(photos), DataSettings(on_disk=True, held_out=0.34))
    with pytest.raises(ValueError, match=INSTALL):
        pack(found, tmp_path / "new", 8, 90)
    assert not (tmp_path / "new").exists()


def test_data_sets_that_need_it_not_do_not_speak_of_it():
    with pytest.raises(NotHere) as error:
        load_dataset("mnist")
    assert "scail[" not in str(error.value)
