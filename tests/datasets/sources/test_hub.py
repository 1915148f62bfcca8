"""Data sets of the Hub as local copies in its layouts, and the original archive of CIFAR-100."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scail.datasets import DataSettings, load_dataset
from scail.datasets.sources.cifar100 import read_original
from scail.stream import class_order


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    """No test sees the user's caches."""
    import datasets
    from huggingface_hub import constants

    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCAIL_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "prepared")
    return tmp_path


def rows(labels: list, **columns: list) -> dict:
    return {
        "image": [Image.new("RGB", (12, 10), (20 * n, 5, 5)) for n in range(len(labels))],
        "label": labels,
    } | columns


def write_parquet(place: Path, parts: dict[str, list], names: list[str] | None) -> None:
    """Parquet files as the Hub has them: data/train-00000-of-00001.parquet and so on."""
    import datasets

    kind = datasets.ClassLabel(names=names) if names else datasets.Value("string")
    features = datasets.Features({"image": datasets.Image(), "label": kind})
    (place / "data").mkdir(parents=True)
    for part, labels in parts.items():
        table = datasets.Dataset.from_dict(rows(labels), features=features)
        table.to_parquet(place / "data" / f"{part}-00000-of-00001.parquet")


def in_hub_cache(tmp_path: Path, repository: str) -> Path:
    """The folder of a downloaded repository: models and data sets lie as owner--name, by revision."""
    place = tmp_path / "hub" / f"datasets--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    (place / "snapshots" / ("0" * 40)).mkdir(parents=True)
    return place / "snapshots" / ("0" * 40)


def red(dataset, part: str) -> list[int]:
    return [int(image[0, 0, 0]) // 20 for image in getattr(dataset, part).images]


def test_a_downloaded_repository_is_found_in_the_hubs_cache(tmp_path):
    write_parquet(in_hub_cache(tmp_path, "someone/pets"), {"train": [0, 1, 1, 0], "test": [1, 0]}, ["cat", "dog"])
    dataset = load_dataset("hf:someone/pets", DataSettings(image_size=8))
    assert dataset.name == "someone/pets" and dataset.class_names == ("cat", "dog") and dataset.shape == (3, 8, 8)
    assert dataset.train.labels.tolist() == [0, 1, 1, 0] and dataset.test.labels.tolist() == [1, 0]
    assert red(dataset, "train") == [0, 1, 2, 3] and dataset.split == "its own test images"
    assert load_dataset("hf:someone/pets", DataSettings(image_size=8, on_disk=True)).shape == (3, 8, 8)


@pytest.mark.parametrize("place", ["someone/pets", "pets"])
def test_the_folder_of_data_sets_comes_first(tmp_path, place):
    write_parquet(in_hub_cache(tmp_path, "someone/pets"), {"train": [0, 1], "test": [1, 0]}, ["other", "names"])
    write_parquet(tmp_path / "data" / place, {"train": [0, 1], "test": [1, 0]}, ["cat", "dog"])
    assert load_dataset("hf:someone/pets").class_names == ("cat", "dog")
    assert load_dataset(str(tmp_path / "data" / place)).class_names == ("cat", "dog")


def test_what_the_library_prepared_before_is_found(tmp_path):
    import datasets
    from datasets.arrow_writer import ArrowWriter

    place = tmp_path / "prepared" / "someone___pets" / "default" / "0.0.0" / "abc"
    place.mkdir(parents=True)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    for name, labels in (
        ("pets-train-00000-of-00002", [0, 1]),
        ("pets-train-00001-of-00002", [1, 0]),
        ("pets-test", [0, 1]),
    ):
        with ArrowWriter(features=features, path=str(place / f"{name}.arrow")) as writer:
            for n, label in enumerate(labels):
                content = io.BytesIO()
                Image.new("RGB", (9, 9), (20 * n, 0, 0)).save(content, "PNG")
                writer.write({"image": {"bytes": content.getvalue(), "path": None}, "label": label})
            writer.finalize()
    (place / "dataset_info.json").write_text("{}")
    dataset = load_dataset("hf:someone/pets", DataSettings(image_size=8))
    assert dataset.train.labels.tolist() == [0, 1, 1, 0] and dataset.test.labels.tolist() == [0, 1]


def test_labels_that_are_texts_and_no_test_part(tmp_path):
    write_parquet(tmp_path / "data" / "birds", {"train": ["owl", "jay"] * 5}, None)
    dataset = load_dataset("birds", DataSettings(image_size=8))  # a name: a folder among the data sets
    assert dataset.class_names == ("jay", "owl") and dataset.split == "20% of each class held out, seed 0"
    assert (len(dataset.train), len(dataset.test)) == (8, 2) and dataset.test.labels.tolist() == [0, 1]


def test_a_test_part_without_labels_is_not_used(tmp_path):
    parts = {"train": [0, 1, 0, 1], "test": [-1, -1], "validation": [1, 0]}
    write_parquet(tmp_path / "data" / "pets", parts, ["cat", "dog"])
    dataset = load_dataset("hf:someone/pets")
    assert dataset.test.labels.tolist() == [1, 0] and dataset.split == "its own validation images"


def test_columns_are_found_or_asked_for(tmp_path):
    import datasets

    place = tmp_path / "data" / "odd"
    place.mkdir(parents=True)
    names = datasets.ClassLabel(names=["a", "b"])
    features = {"image": datasets.Image(), "label": names, "kind": names, "other": datasets.Image()}
    content = rows([0, 1], kind=[1, 0]) | {"other": [Image.new("RGB", (8, 8))] * 2}
    for part in ("train", "test"):
        datasets.Dataset.from_dict(content, features=datasets.Features(features)).to_parquet(place / f"{part}.parquet")
    with pytest.raises(
        ValueError, match=r"which column has the images\? It has image, label, kind, other: give --image"
    ):
        load_dataset("odd")
    dataset = load_dataset("odd", DataSettings(image_column="image"))
    assert dataset.train.labels.tolist() == [0, 1]  # of two kinds of label, the one with the usual name
    assert load_dataset("odd", DataSettings(image_column="image", label_column="kind")).train.labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="no column 'picture'; it has image"):
        load_dataset("odd", DataSettings(image_column="picture"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:someone/pets", "nothing is fetched unasked: hf download someone/pets --repo-type dataset"),
        ("cifar100", "hf download uoft-cs/cifar100 --repo-type dataset, or put its Parquet files"),
        (
            "ilsvrc",
            "put train/<wnid>/.*ILSVRC2012_devkit_t12.tar.gz into .*data/ilsvrc, or hf download ILSVRC/imagenet-1k",
        ),
        ("vggface2", "put train/<identity>/.*scail prepare vggface2 SRC .*data/vggface2"),
        ("landmarks", "put train.csv of Google Landmarks version 1"),
        ("nowhere", "nowhere: there is no such folder or list file here, and no data set of this name"),
        ("hf:a/b--c..d/x", "expected hf:owner/name|nothing is fetched"),
    ],
)
def test_missing_data_is_told_with_the_way_to_get_it(name, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(name)


# --------------------------------------------------------------------------------------------- the original CIFAR-100


def original_files() -> dict[str, bytes]:
    """Two classes in the format of cifar-100-python: pickles with byte keys, rows of 3072 numbers, colour by colour."""
    files = {"meta": {b"fine_label_names": [b"apple", b"baby"], b"coarse_label_names": [b"thing"]}}
    for part, labels in (("train", [1, 0, 1, 0]), ("test", [0, 1])):
        data = np.arange(len(labels) * 3072, dtype=np.int64).reshape(-1, 3072) % 251
        files[part] = {b"fine_labels": labels, b"coarse_labels": [0] * len(labels), b"data": data.astype(np.uint8)}
    return {name: pickle.dumps(content, protocol=2) for name, content in files.items()}


@pytest.mark.parametrize(
    "layout", ["cifar100/cifar-100-python/", "cifar-100-python/", "cifar100/", "archive", "outside"]
)
def test_the_original_archive_packed_or_not(tmp_path, layout):
    (tmp_path / "data" / "cifar100").mkdir(parents=True)
    if layout in ("archive", "outside"):
        place = tmp_path / "data" / ("cifar100" if layout == "archive" else "") / "cifar-100-python.tar.gz"
        with tarfile.open(place, "w:gz") as archive:
            for name, content in original_files().items():
                member = tarfile.TarInfo(f"cifar-100-python/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        (tmp_path / "data" / layout).mkdir(parents=True, exist_ok=True)
        for name, content in original_files().items():
            (tmp_path / "data" / layout / name).write_bytes(content)
    dataset = load_dataset("cifar100")
    assert dataset.name == "cifar100" and dataset.class_names == ("apple", "baby") and dataset.shape == (3, 32, 32)
    assert dataset.train.labels.tolist() == [1, 0, 1, 0] and dataset.test.labels.tolist() == [0, 1]
    expected = torch.arange(4 * 3072).reshape(4, 3, 32, 32) % 251
    assert torch.equal(dataset.train.images.long(), expected)
    assert load_dataset("cifar100", DataSettings(image_size=224)).shape == (3, 224, 224)  # scaled up, from disk


def test_nothing_in_an_archive_is_run(tmp_path):
    class Harmful:
        def __reduce__(self):
            return Path.touch, (tmp_path / "was run",)

    with pytest.raises(ValueError, match=r"cifar-100-python/train: not a file of CIFAR-100 \(asks for 'pathlib"):
        read_original("cifar-100-python/train", pickle.dumps({b"data": Harmful()}), {})
    assert not (tmp_path / "was run").exists()
    for content in (b"", b"no pickle", pickle.dumps([1, 2])):
        with pytest.raises(ValueError, match="not a file of CIFAR-100"):
            read_original("cifar-100-python/train", content, {})


# ------------------------------------------------------------------------------------------------- the Hub's ImageNet


def test_ilsvrc_from_the_hub_in_icarls_order_and_split(tmp_path, monkeypatch):
    """Labels of the Hub follow the alphabet of WordNet ids; the devkit gives classes their ids, and iCaRL its order."""
    from scipy.io import savemat

    monkeypatch.setattr("scail.datasets.sources.ilsvrc_hub.HELD_OUT", 2)
    parts = {"train": [0, 1, 2] * 4, "test": [-1], "validation": [2, 1, 0]}
    write_parquet(in_hub_cache(tmp_path, "ILSVRC/imagenet-1k"), parts, ["tench", "goldfish", "shark"])
    dataset = load_dataset("ilsvrc")
    assert dataset.icarl == "unknown" and dataset.class_names == ("tench", "goldfish", "shark")
    with pytest.raises(ValueError, match="ILSVRC2012_devkit_t12"):
        class_order("icarl", dataset.class_names, 0, icarl=dataset.icarl)
    place = tmp_path / "data" / "ilsvrc" / "ILSVRC2012_devkit_t12" / "data"
    place.mkdir(parents=True)
    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
    synsets = np.array([(1, "n03", "shark", 0), (2, "n01", "tench", 0), (3, "n02", "goldfish", 0)], dtype=kinds)
    savemat(place / "meta.mat", {"synsets": synsets.reshape(-1, 1)})
    dataset = load_dataset("ilsvrc")
    assert dataset.icarl == "positions" and dataset.class_names == ("shark", "tench", "goldfish")
    assert torch.bincount(dataset.train.labels).tolist() == [2, 2, 2] == torch.bincount(dataset.test.labels).tolist()
    assert dataset.split == "icarl: 2 a class held out of train, seed 0"
    official = load_dataset("ilsvrc", DataSettings(split="official"))
    assert len(official.train) == 12 and official.test.labels.tolist() == [0, 2, 1]
    assert official.split == "official: all of train, its own validation images"


def test_the_papers_sets_are_found_by_name_and_their_manifests_can_be_used(tmp_path, monkeypatch):
    for c, count in enumerate((6, 3, 5)):
        for n in range(count):
            path = tmp_path / "data" / "vggface2" / "train" / f"n{c:06}" / f"{n}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), (40 * c, 10 * n, 0)).save(path)
    from functools import partial

    from scail.datasets.sources import vggface2

    monkeypatch.setattr(vggface2, "list_vggface2", partial(vggface2.list_vggface2, test_images=2))
    dataset = load_dataset("vggface2", DataSettings(classes=2, image_size=16))
    assert dataset.class_names == ("n000000", "n000002") and len(dataset.train) == 7 and len(dataset.test) == 4
    (manifest,) = (tmp_path / "cache" / "manifests").iterdir()
    assert any(str(manifest) in note for note in dataset.notes)
    again = load_dataset(str(manifest), DataSettings(image_size=16))
    assert again.name == "vggface2" and again.fingerprint == dataset.fingerprint and again.split == dataset.split
    header = manifest.read_text().splitlines()
    assert json.loads(header[0].removeprefix("# name: ")) == "vggface2"
