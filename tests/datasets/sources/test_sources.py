"""The listings of the paper's large data sets: small trees in their original layouts; no image is ever opened."""

from __future__ import annotations

import errno
import io
import os
import random
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from scail.datasets import scan
from scail.datasets.listing import Listing, Part, hold_out, largest_classes, read_manifest, write_manifest
from scail.datasets.sources import landmarks
from scail.datasets.sources.devkit import find_devkit
from scail.datasets.sources.ilsvrc import list_ilsvrc
from scail.datasets.sources.landmarks import list_landmarks
from scail.datasets.sources.vggface2 import list_vggface2

WNIDS = ("n03", "n01", "n04", "n02")  # devkit ids 1 to 4: not the alphabet's order
META, TRUTH = "data/meta.mat", "data/ILSVRC2012_validation_ground_truth.txt"


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def relative(part: Part, root: Path) -> list[tuple[str, int]]:
    return [
        (Path(path).relative_to(root).as_posix(), label) for path, label in zip(part.paths, part.labels, strict=True)
    ]


def names_of(part: Part, label: int) -> set[str]:
    return {Path(path).name for path, at in zip(part.paths, part.labels, strict=True) if at == label}


@pytest.fixture
def shuffled_directories(monkeypatch):
    """A function that makes every directory list its entries in another order."""
    scandir = os.scandir

    def use(seed: int) -> None:
        class Shuffled:
            def __init__(self, folder) -> None:
                with scandir(folder) as entries:
                    self.entries = sorted(entries, key=lambda entry: entry.name)
                random.Random(seed).shuffle(self.entries)

            def __enter__(self):
                return iter(self.entries)

            def __exit__(self, *_):
                pass

        monkeypatch.setattr(os, "scandir", Shuffled)

    return use


# --- what all of them share ---


def test_hold_out_draws_by_class_and_file_names_alone():
    paths = {"b": [f"/x/b/{n}.jpg" for n in range(9)], "a": [f"/x/a/{n}.jpg" for n in range(5)]}
    train, test = hold_out(paths, 2, seed=0)
    assert test.labels == [0, 0, 1, 1] and train.labels == [0] * 7 + [1] * 3  # labels as the classes are given
    for label, name in enumerate(paths):
        assert names_of(train, label) | names_of(test, label) == {Path(path).name for path in paths[name]}
        assert not names_of(train, label) & names_of(test, label)
    assert train.paths[:7] == sorted(train.paths[:7]) and test.paths[:2] == sorted(test.paths[:2])

    moved = {"b": [f"/elsewhere/{n % 3}/{n}.jpg" for n in reversed(range(9))]}  # alone, elsewhere, in another order
    assert names_of(hold_out(moved, 2, seed=0)[1], 0) == names_of(test, 0)
    draws = {frozenset(names_of(hold_out(paths, 2, seed)[1], 0)) for seed in range(9)}
    assert len(draws) > 3
    same = {name: [f"/{n}.jpg" for n in range(50)] for name in "ab"}
    drawn = hold_out(same, 20, seed=0)[1]
    assert names_of(drawn, 0) != names_of(drawn, 1)  # each class has a draw of its own


def test_hold_out_needs_more_than_the_test_images():
    message = r"class 'b' has 2 image\(s\), expected at least 3: 2 to test and one to train \(2 of 3 classes"
    with pytest.raises(ValueError, match=message):
        hold_out({"a": ["1", "2", "3"], "b": ["1", "2"], "c": []}, 2, seed=0)
    assert hold_out({"a": ["1", "2", "3"]}, 2, seed=0)[0].labels == [0]
    with pytest.raises(ValueError, match="0 test images a class: expected at least 1"):
        hold_out({"a": ["1", "2", "3"]}, 0, seed=0)


def test_the_largest_classes_and_ties_by_name():
    counts = {"d": 3, "a": 1, "c": 3, "b": 7, "e": 3}
    assert largest_classes(counts, 3) == ("b", "c", "d")
    assert largest_classes(dict(reversed(counts.items())), 3) == ("b", "c", "d")
    assert largest_classes(counts, 5) == ("b", "c", "d", "e", "a")
    for n in (6, 1):
        with pytest.raises(ValueError, match=rf"faces: {n} classes asked for, expected 2 to 5.*--classes"):
            largest_classes(counts, n, where="faces")


@pytest.mark.parametrize(
    ("names", "train", "test", "message"),
    [
        ("aa", Part(["1"], [0]), Part(["2"], [0]), "x: two classes have the same name"),
        ("ab", Part(["1", "2"], [0, 1]), Part(["3"], [0]), r"x: no test images for 1 class\(es\), the first is 'b'"),
        ("ab", Part(["1"], [1]), Part(["3", "4"], [0, 1]), r"no training images for 1 class\(es\), the first is 'a'"),
        ("ab", Part(["1", "2"], [0, 2]), Part(), "a training label is 2, expected 0 to 1"),
        ("ab", Part(["1", "2"], [0, -1]), Part(), "a training label is -1"),
        ("ab", Part(["1", "2"], [0]), Part(), "2 training files with 1 labels"),
    ],
)
def test_a_listing_that_cannot_be_is_an_error(names, train, test, message):
    with pytest.raises(ValueError, match=message):
        Listing("x", tuple(names), train, test, "by hand")


def test_endings_in_any_case_and_nothing_hidden(tmp_path):
    touch(tmp_path, "b.JPEG", "a.jpg", "c.Png", "notes.txt", "jpg", ".hidden.jpg", "archive.tar")
    assert [Path(path).name for path in scan.images_in(tmp_path)] == ["a.jpg", "b.JPEG", "c.Png"]
    assert scan.count_images(tmp_path) == 3
    (tmp_path / "k").mkdir()
    (tmp_path / ".git").mkdir()
    assert scan.class_folders(tmp_path) == {"k": str(tmp_path / "k")}


# --- manifest ---


@pytest.fixture
def listing(tmp_path) -> Listing:
    root = tmp_path / "data"
    odd = ["train/a/1.jpg", 'train/a/with, comma and "quotes".jpg', "train/b/two\r\nlines.jpg", "train/b/#é\udcff.jpg"]
    for name in (*odd, "val/0.jpg", "1.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    train = Part([str(root / name) for name in odd], [1, 1, 0, 0])
    test = Part([str(root / name) for name in ("1.jpg", "val/0.jpg")], [0, 1])
    return Listing("pets", ("b, c", "a#"), train, test, "by hand: ü", "positions", ("one", "two\nlines"))


def test_a_manifest_comes_back_as_it_was(listing, tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("an older one")
    write_manifest(listing, path)
    assert read_manifest(path) == listing and read_manifest(str(path)) == listing
    lines = path.read_text(errors="surrogateescape").split("\n")
    assert lines[0] == '# name: "pets"' and lines[1] == f'# root: "{tmp_path / "data"}"'
    assert "path,class,part" in lines and "train/a/1.jpg,a#,train" in lines and "val/0.jpg,a#,test" in lines
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "pets.csv"]  # nothing left beside it

    (tmp_path / "data").rename(tmp_path / "moved")
    with pytest.raises(ValueError, match=r"pets.csv: its root folder .*data does not exist; correct the line '# root"):
        read_manifest(path)
    moved = read_manifest(path, root=tmp_path / "moved")
    assert relative(moved.train, tmp_path / "moved") == relative(listing.train, tmp_path / "data")
    assert moved.test.paths[0] == str(tmp_path / "moved" / "1.jpg")


def test_a_manifest_is_written_in_one_step(listing, tmp_path, monkeypatch):
    path = tmp_path / "pets.csv"
    write_manifest(listing, path)
    before = path.read_bytes()

    def fail(_):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_manifest(Listing("pets", ("a",), Part(["x/1"], [0]), Part(["x/2"], [0]), "other"), path)
    assert path.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == ["data", "pets.csv"]


def test_a_listing_of_relative_paths_and_of_one_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_manifest(Listing("x", ("a",), Part(["1.jpg"], [0]), Part(["2.jpg"], [0]), "by hand"), "m.csv")
    assert read_manifest("m.csv").train.paths == [str(tmp_path / "1.jpg")]


GOOD = """# name: "pets"
# root: "ROOT"
# split: "by hand"
# icarl: "direct"
# notes: []
# classes: ["a", "b"]
path,class,part
1.jpg,a,train
2.jpg,a,test
3.jpg,b,train
4.jpg,b,test
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2.jpg,a,test", "2.jpg,a", r"m.csv, line 9: '2.jpg,a': expected path,class,part"),
        ("2.jpg,a,test", "2.jpg,a,test,x", r"m.csv, line 9: '2.jpg,a,test,x': expected path,class,part"),
        ("2.jpg,a,test", "2.jpg,a,val", r"m.csv, line 9: part 'val': expected train or test"),
        ("2.jpg,a,test", "2.jpg,z,test", r"m.csv, line 9: class 'z' is not in the line '# classes"),
        ("2.jpg,a,test", "1.jpg,a,test", r"m.csv, line 9: '1.jpg' is listed a second time"),
        ("2.jpg,a,test", "/2.jpg,a,test", r"m.csv, line 9: path '/2.jpg': expected one below the root"),
        ("2.jpg,a,test", ",a,test", r"m.csv, line 9: path '': expected one below the root"),
        ("2.jpg,a,test", '"2.jpg"x,a,test', r"m.csv, line 9: not CSV"),
        ("2.jpg,a,test\n", "", r"m.csv: pets: no test images for 1 class\(es\), the first is 'a'"),
        ("path,class,part", "path,label,part", r"m.csv, line 7: 'path,label,part': expected the columns path,class,"),
        ('# split: "by hand"\n', "", r"m.csv: no line '# split: ...' before the columns"),
        ("# split:", "# cut:", r"m.csv, line 3: unknown key 'cut', expected one of name, root"),
        ('"by hand"', "by hand", r"m.csv, line 3: split is not JSON"),
        ('"by hand"', "3", r"m.csv, line 3: split is 3, expected a text as JSON"),
        ('["a", "b"]', '["a", 1]', r"m.csv, line 6: classes is \[\"a\", 1\], expected a list of texts"),
        ('["a", "b"]', '"ab"', r"m.csv, line 6: classes is \"ab\", expected a list of texts"),
        ('"direct"', '"sideways"', r"m.csv: icarl is 'sideways', expected direct, positions, unknown"),
        (GOOD[GOOD.index("path,class") :], "", r"m.csv: ends before the columns"),
    ],
)
def test_bad_lines_of_a_manifest_are_named(tmp_path, old, new, message):
    path = tmp_path / "m.csv"
    path.write_text(GOOD.replace("ROOT", str(tmp_path)) + "\n\n")
    assert read_manifest(path).train.labels == [0, 1]  # empty lines at the end are no rows
    assert old in GOOD
    path.write_text(GOOD.replace("ROOT", str(tmp_path)).replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_manifest(path)


def test_no_manifest(tmp_path):
    with pytest.raises(ValueError, match=r"m.csv: no such manifest file"):
        read_manifest(tmp_path / "m.csv")


# --- ILSVRC ---


def meta_mat(wnids=WNIDS) -> bytes:
    """As in the devkit: n x 1 structs, leaves first in any order, then inner classes with higher ids."""
    fields = [
        "ILSVRC2012_ID",
        "WNID",
        "words",
        "gloss",
        "num_children",
        "children",
        "wordnet_height",
        "num_train_images",
    ]
    leaves = [(c, wnid, f"word {wnid}", "gloss", 0, np.zeros((0, 0)), 0, 1300) for c, wnid in enumerate(wnids, 1)]
    inner = [(len(wnids) + 1, "n99", "thing", "gloss", 2, np.array([[1.0, 2.0]]), 1, 0)]
    synsets = np.empty((len(wnids) + 1, 1), dtype=[(name, object) for name in fields])
    for row, values in enumerate([*leaves[::-1], *inner]):
        synsets[row, 0] = tuple(float(v) if isinstance(v, int) else v for v in values)
    file = io.BytesIO()
    savemat(file, {"synsets": synsets})
    return file.getvalue()


def unpacked_devkit(place: Path, meta: bytes, truth: str | None = None) -> None:
    data = place / "ILSVRC2012_devkit_t12" / "data"
    data.mkdir(parents=True)
    (data / "meta.mat").write_bytes(meta)
    if truth is not None:
        (data / "ILSVRC2012_validation_ground_truth.txt").write_text(truth)


def packed_devkit(place: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(place / "ILSVRC2012_devkit_t12.tar.gz", "w:gz") as tar:
        for name, content in {"readme.txt": b"hello", "data/not_meta.mat": b"no", **files}.items():
            member = tarfile.TarInfo(f"ILSVRC2012_devkit_t12/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def train_images(train: Path, wnids=WNIDS, count: int = 53) -> None:
    for wnid in wnids:
        touch(train / wnid, *(f"{wnid}_{n}.JPEG" for n in range(count)))


@pytest.fixture
def ilsvrc(tmp_path) -> Path:
    train_images(tmp_path / "ilsvrc" / "train")
    return tmp_path / "ilsvrc"


@pytest.mark.parametrize("inner", ["", "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC"])
@pytest.mark.parametrize("kit", ["packed", "unpacked", "packed above", "unpacked above", None])
def test_ilsvrc_in_every_layout(tmp_path, inner, kit):
    place = tmp_path / "above" / "ilsvrc"
    train_images(place / inner / "train")
    touch(place / inner / "train", "n01.tar")  # left over from unpacking: no class
    if kit:
        at = place.parent if "above" in kit else place
        packed_devkit(at, {META: meta_mat()}) if kit.startswith("packed") else unpacked_devkit(at, meta_mat())
    found = list_ilsvrc(place)
    assert found.name == "ilsvrc" and found.class_names == (WNIDS if kit else tuple(sorted(WNIDS)))
    assert found.icarl == ("positions" if kit else "unknown")
    assert found.split == "icarl, seed 0: 50 a class held out of train"
    assert (len(found.train), len(found.test)) == (4 * 3, 4 * 50)
    for label, wnid in enumerate(found.class_names):
        train, test = names_of(found.train, label), names_of(found.test, label)
        assert not train & test and train | test == {f"{wnid}_{n}.JPEG" for n in range(53)}
    assert all(Path(path).is_file() for path in found.train.paths + found.test.paths)
    assert found.notes == (() if kit else (found.notes[0],))
    assert kit or "no ILSVRC2012_devkit_t12 found: classes are in the alphabet's order" in found.notes[0]
    assert not (place / "ILSVRC2012_devkit_t12").exists() or kit == "unpacked"  # nothing is unpacked


def test_ilsvrc_is_the_same_whatever_the_directory_order(ilsvrc, shuffled_directories):
    plain = list_ilsvrc(ilsvrc)
    for seed in range(3):
        shuffled_directories(seed)
        assert list_ilsvrc(ilsvrc) == plain
    other = list_ilsvrc(ilsvrc, seed=1)
    assert other.test.paths != plain.test.paths and "seed 1" in other.split


def test_ilsvrc_takes_the_first_classes_in_its_order(ilsvrc):
    assert list_ilsvrc(ilsvrc, classes=2).class_names == ("n01", "n02")
    all_four = list_ilsvrc(ilsvrc, classes=4)
    packed_devkit(ilsvrc, {META: meta_mat()})
    few = list_ilsvrc(ilsvrc, classes=2)
    assert few.class_names == WNIDS[:2] and few.icarl == "positions" and not few.notes
    assert names_of(few.test, 0) == names_of(all_four.test, 2)  # n03 has its own draw, whatever the others are
    for classes in (1, 5):
        with pytest.raises(ValueError, match=rf"ilsvrc: classes is {classes}, expected 2 to 4, the class folders in"):
            list_ilsvrc(ilsvrc, classes=classes)


def test_ilsvrc_with_missing_class_folders_says_so(tmp_path):
    place = tmp_path / "ilsvrc"
    place.mkdir()
    packed_devkit(place, {META: meta_mat()})
    train_images(place / "train", WNIDS[:3])
    first = list_ilsvrc(place)
    assert first.class_names == WNIDS[:3] and first.icarl == "positions"  # ids 1 to 3: iCaRL's order is defined
    assert first.notes == ("1 of the devkit's first 4 classes have no folder in train, the first is n02",)
    (place / "train" / "n01").rename(place / "train" / "n02")
    gap = list_ilsvrc(place)
    assert gap.class_names == ("n03", "n04", "n02") and gap.icarl == "unknown"
    assert gap.notes == ("1 of the devkit's first 4 classes have no folder in train, the first is n01",)
    assert list_ilsvrc(place, classes=2).icarl == "unknown"


def official_labels(place: Path, source: str, numbers: list[int]) -> None:
    if source == "csv":
        rows = [f"ILSVRC2012_val_{n:08},{WNIDS[c - 1]} 1 2 3 4 n77 5 6 7 8 " for n, c in enumerate(numbers, 1)]
        (place / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + "\n".join(reversed(rows)) + "\n")
        return
    truth = "".join(f"{c}\n" for c in numbers)
    if source == "packed":
        packed_devkit(place, {META: meta_mat(), TRUTH: truth.encode()})
    else:
        unpacked_devkit(place, meta_mat(), truth)


@pytest.mark.parametrize("source", ["csv", "packed", "unpacked"])
@pytest.mark.parametrize("inner", ["", "ILSVRC/Data/CLS-LOC"])
@pytest.mark.parametrize("above", [False, True])
def test_official_validation_images_in_one_folder(tmp_path, source, inner, above):
    place = tmp_path / "above" / "ilsvrc"
    train_images(place / inner / "train", count=3)
    numbers = [2, 4, 1, 3, 2]
    touch(place / inner / "val", *(f"ILSVRC2012_val_{n:08}.JPEG" for n in range(1, 6)))
    official_labels(place.parent if above else place, source, numbers)
    found = list_ilsvrc(place, split="official")
    names = WNIDS if source != "csv" else tuple(sorted(WNIDS))
    assert found.class_names == names
    expected = {(n, WNIDS[c - 1]) for n, c in enumerate(numbers, 1)}
    tested = zip(found.test.paths, found.test.labels, strict=True)
    assert {(int(path[-13:-5]), names[label]) for path, label in tested} == expected
    assert len(found.test) == 5 and sorted(found.test.labels) == found.test.labels
    assert len(found.train) == 12 and found.train.labels == [c for c in range(4) for _ in range(3)]
    assert all(names[label] in path for path, label in zip(found.train.paths, found.train.labels, strict=True))
    label_file = {"csv": "LOC_val_solution.csv", "packed": "ILSVRC2012_devkit_t12.tar.gz"}
    assert found.split.endswith(f"labelled by {label_file.get(source, 'ILSVRC2012_devkit_t12')}")


def test_official_validation_images_in_class_folders(ilsvrc, shuffled_directories):
    train_images(ilsvrc / "val", count=2)
    found = list_ilsvrc(ilsvrc, split="official")
    assert found.class_names == ("n01", "n02", "n03", "n04") and found.split.startswith("official: all of train")
    assert (len(found.train), len(found.test)) == (4 * 53, 8) and found.test.labels == [0, 0, 1, 1, 2, 2, 3, 3]
    assert names_of(found.test, 2) == {"n03_0.JPEG", "n03_1.JPEG"}
    assert all(f"{os.sep}val{os.sep}" in path for path in found.test.paths)
    shuffled_directories(1)
    assert list_ilsvrc(ilsvrc, split="official") == found
    few = list_ilsvrc(ilsvrc, split="official", classes=3)
    assert few.test.labels == [0, 0, 1, 1, 2, 2]
    assert few.notes[-1] == "2 validation images of classes that are not listed are left out"


def test_official_validation_images_that_are_not_there_are_counted(ilsvrc):
    touch(ilsvrc / "val", *(f"ILSVRC2012_val_{n:08}.JPEG" for n in (1, 2, 4, 5)))
    official_labels(ilsvrc, "packed", [1, 2, 3, 3, 4, 4])
    assert list_ilsvrc(ilsvrc, split="official").notes == ("2 of 6 validation images are not on disk",)


def test_the_devkit_is_read_whatever_its_size_and_first_in_the_folder(tmp_path):
    (tmp_path / "in").mkdir()
    assert find_devkit([tmp_path / "in", tmp_path]) is None
    unpacked_devkit(tmp_path, meta_mat(("n7",)))
    found = find_devkit([tmp_path / "in", tmp_path])
    assert found and found.wnids == ("n7",) and found.truth is None
    packed_devkit(tmp_path / "in", {META: meta_mat([f"n{n:04}" for n in range(1000, 0, -1)])})
    found = find_devkit([tmp_path / "in", tmp_path])
    assert found and found.wnids == tuple(f"n{n:04}" for n in range(1000, 0, -1))


def empty_meta() -> bytes:
    file = io.BytesIO()
    savemat(file, {"something": 1.0})
    return file.getvalue()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({META: b"no matrix"}, r"t12.tar.gz: cannot be read as the devkit's meta.mat"),
        ({META: empty_meta()}, r"t12.tar.gz: cannot be read as the devkit's meta.mat \(has no table synsets"),
        ({}, r"t12.tar.gz: holds no data/meta.mat; download it again"),
        ({META: meta_mat(())}, r"expected classes with the ids 1\.\.n, found \[\]"),
    ],
)
def test_a_damaged_devkit_is_named(ilsvrc, files, message):
    packed_devkit(ilsvrc, files)
    with pytest.raises(ValueError, match=message):
        list_ilsvrc(ilsvrc)


def test_an_archive_that_is_cut_is_named(ilsvrc):
    packed_devkit(ilsvrc, {META: os.urandom(20000)})
    archive = ilsvrc / "ILSVRC2012_devkit_t12.tar.gz"
    for content in (archive.read_bytes()[:9000], b"no archive", b""):
        archive.write_bytes(content)
        with pytest.raises(ValueError, match=r"t12.tar.gz: cannot be read \(.*download it again"):
            list_ilsvrc(ilsvrc)


def test_what_is_wrong_with_ilsvrcs_folders_is_said(ilsvrc, tmp_path):
    with pytest.raises(ValueError, match="split 'val', expected icarl or official"):
        list_ilsvrc(ilsvrc, split="val")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no training images in .*nowhere: .* train or ILSVRC/Data/CLS-LOC/train or"):
        list_ilsvrc(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no folder .*val: split official needs the validation images there"):
        list_ilsvrc(ilsvrc, split="official")
    (ilsvrc / "val").mkdir()
    with pytest.raises(ValueError, match=r"val: no images; unpack ILSVRC2012_img_val.tar there"):
        list_ilsvrc(ilsvrc, split="official")
    touch(ilsvrc / "val", "ILSVRC2012_val_00000001.JPEG", "ILSVRC2012_val_00000003.JPEG")
    with pytest.raises(
        ValueError, match=r"need labels: put ILSVRC2012_devkit_t12.tar.gz or .*LOC_val_solution.csv into"
    ):
        list_ilsvrc(ilsvrc, split="official")
    unpacked_devkit(ilsvrc, meta_mat())  # without the validation images' labels
    with pytest.raises(ValueError, match=r"need labels"):
        list_ilsvrc(ilsvrc, split="official")
    truth = ilsvrc / "ILSVRC2012_devkit_t12" / TRUTH
    truth.write_text("1\n2\n")
    with pytest.raises(ValueError, match=r"val_00000003.JPEG: no class for it in .*t12; .* up to number 2"):
        list_ilsvrc(ilsvrc, split="official")
    truth.write_text("1\n2\n3\n")
    with pytest.raises(ValueError, match=r"ilsvrc: no test images for 2 class\(es\), the first is 'n01'"):
        list_ilsvrc(ilsvrc, split="official")
    for bad in ("5", "0", "", "x", "-1", "²"):
        truth.write_text(f"1\n{bad}\n3\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"ground_truth.txt, line 2: .*: expected an id of 1 to 4"):
            list_ilsvrc(ilsvrc, split="official")
    touch(ilsvrc / "val" / "n01", "x.JPEG")
    with pytest.raises(ValueError, match=r"val: both class folders and loose images, e.g. .*val_00000001"):
        list_ilsvrc(ilsvrc, split="official")


def test_class_folders_that_the_devkit_does_not_know(ilsvrc):
    packed_devkit(ilsvrc, {META: meta_mat()})
    train_images(ilsvrc / "val", (*WNIDS, "n99"), count=1)  # n99 is in the kit, but no leaf
    with pytest.raises(ValueError, match=r"val: class folder 'n99' is unknown to .*t12.tar.gz"):
        list_ilsvrc(ilsvrc, split="official")
    train_images(ilsvrc / "train", ("n99", "n98"), count=1)
    with pytest.raises(ValueError, match=r"train: class folder 'n98' \(2 such\) is unknown to .*t12.tar.gz; remove it"):
        list_ilsvrc(ilsvrc)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,label\n", r"solution.csv, line 1: expected the columns ImageId,PredictionString"),
        ("", r"solution.csv, line 1: expected the columns"),
        ("ImageId,PredictionString\nILSVRC2012_val_00000001,\n", r"solution.csv, line 2: expected an image id and"),
        ("ImageId,PredictionString\nILSVRC2012_val_00000001\n", r"solution.csv, line 2: expected an image id and"),
        ("ImageId,PredictionString\nx,n01 1 2 3 4\n", r"val_00000001.JPEG: no class for it in .*solution.csv"),
    ],
)
def test_what_is_wrong_with_kaggles_labels_is_said(ilsvrc, table, message):
    touch(ilsvrc / "val", "ILSVRC2012_val_00000001.JPEG")
    (ilsvrc / "LOC_val_solution.csv").write_text(table)
    with pytest.raises(ValueError, match=message):
        list_ilsvrc(ilsvrc, split="official")


def test_a_class_of_ilsvrc_with_too_few_images(ilsvrc):
    for n in range(3):
        (ilsvrc / "train" / "n04" / f"n04_{n}.JPEG").unlink()
    with pytest.raises(ValueError, match=r"class 'n04' has 50 image\(s\), expected at least 51"):
        list_ilsvrc(ilsvrc)


# --- VGGFace2 ---


def faces(train: Path, counts: dict[str, int]) -> None:
    for name, count in counts.items():
        touch(train / name, "notes.txt", *(f"{n:04}_01.jpg" for n in range(count)))


@pytest.mark.parametrize("inner", ["train", "data/train", "vggface2_train/train"])
def test_vggface2_takes_the_identities_with_the_most_images(tmp_path, inner, shuffled_directories):
    faces(tmp_path / inner, {"n000009": 8, "n000002": 6, "n000005": 6, "n000003": 6, "n000004": 5, "n000001": 0})
    faces(tmp_path / "test", {"n000100": 20})  # other identities: not used
    found = list_vggface2(tmp_path, classes=3, test_images=2)
    assert found.name == "vggface2" and found.icarl == "direct" and found.notes == ()
    assert found.class_names == ("n000002", "n000003", "n000009")
    assert found.train.labels == [0] * 4 + [1] * 4 + [2] * 6 and found.test.labels == [0, 0, 1, 1, 2, 2]
    for label, name in enumerate(found.class_names):
        train, test = names_of(found.train, label), names_of(found.test, label)
        assert not train & test and train | test == {f"{n:04}_01.jpg" for n in range(8 if name == "n000009" else 6)}
    assert all(Path(path).is_file() for path in found.train.paths + found.test.paths)
    assert found.split == "3 identities with the most images; seed 0: 2 a class held out of train"
    for seed in range(3):
        shuffled_directories(seed)
        assert list_vggface2(tmp_path, classes=3, test_images=2) == found
    assert list_vggface2(tmp_path, classes=3, test_images=2, seed=5).test.paths != found.test.paths


def test_what_is_wrong_with_vggface2_is_said(tmp_path):
    with pytest.raises(
        ValueError, match=r"vggface2: no training images in .*: .* train or data/train or vggface2_train"
    ):
        list_vggface2(tmp_path)
    faces(tmp_path / "train", {"n1": 60, "n2": 60, "n3": 50, "n4": 0})
    with pytest.raises(ValueError, match=r"vggface2, .*train: 1000 classes asked for, expected 2 to 3"):
        list_vggface2(tmp_path)
    with pytest.raises(ValueError, match=r"class 'n3' has 50 image\(s\), expected at least 51"):
        list_vggface2(tmp_path, classes=3)
    assert (len(list_vggface2(tmp_path, classes=2).test), len(list_vggface2(tmp_path, classes=2).train)) == (100, 20)


# --- Landmarks ---

COUNTS = {"70": 9, "9": 7, "1000": 7, "8": 7, "5": 3}
IDS = {f"{'abcde'[c]}{n}{n}f{n:04}": name for c, (name, count) in enumerate(COUNTS.items()) for n in range(count)}


def landmark_table(place: Path, quoted: bool = True, extra: str = "") -> None:
    rows = [("id", "url", "landmark_id"), *((i, f"http://x/a,b/{i}.jpg", landmark) for i, landmark in IDS.items())]
    rows += [("fff0", "http://x/", "None")]
    if not quoted:
        rows = [(i, url.replace(",", ""), landmark) for i, url, landmark in rows]
    lines = [",".join(f'"{v}"' if quoted else v for v in row) for row in rows]
    place.mkdir(parents=True, exist_ok=True)
    (place / "train.csv").write_text("\n".join(lines) + "\n" + extra)


def landmark_images(place: Path, nested: bool, ids) -> None:
    for image_id in ids:
        touch(place.joinpath(*image_id[:3]) if nested else place, f"{image_id}.jpg")


@pytest.mark.parametrize("inner", ["", "train", "images"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("quoted", [False, True])
def test_landmarks_takes_the_largest_classes_on_disk(tmp_path, inner, nested, quoted, shuffled_directories):
    landmark_table(tmp_path, quoted)
    dead = "a00f0000"
    landmark_images(tmp_path / inner, nested, set(IDS) - {dead})
    landmark_images(tmp_path / inner, nested, ["fff0", "0123"])  # without a landmark; in no table
    found = list_landmarks(tmp_path, classes=3, test_images=2)
    assert found.name == "landmarks" and found.class_names == ("1000", "70", "8")  # 8, 7 and 7 images; not 9: ties
    assert found.train.labels == [0] * 5 + [1] * 6 + [2] * 5 and found.test.labels == [0, 0, 1, 1, 2, 2]
    for label, name in enumerate(found.class_names):
        train, test = names_of(found.train, label), names_of(found.test, label)
        mine = {f"{i}.jpg" for i, landmark in IDS.items() if landmark == name and i != dead}
        assert not train & test and train | test == mine
    assert all(Path(path).is_file() for path in found.train.paths + found.test.paths)
    assert found.icarl == "direct"
    assert found.split == "3 landmarks with the most images on disk; seed 0: 2 a class held out"
    assert found.notes == (
        "32 of the 33 images that train.csv lists with a landmark are on disk",
        "1 rows of train.csv name no landmark and are left out",
        "2 more image files are left out: not in train.csv, or there a second time",
    )
    for seed in range(3):
        shuffled_directories(seed)
        assert list_landmarks(tmp_path, classes=3, test_images=2) == found


def test_images_that_lie_twice_count_once_and_the_layout_does_not_change_the_draw(tmp_path, shuffled_directories):
    drawn = []
    for name, nested in (("flat", False), ("nested", True)):
        landmark_table(tmp_path / name)
        landmark_images(tmp_path / name / "train", nested, IDS)
        drawn.append(list_landmarks(tmp_path / name, classes=4, test_images=3))
    landmark_images(tmp_path / "flat" / "images", True, list(IDS)[:5])
    landmark_images(tmp_path / "flat" / "train", True, list(IDS)[:5])
    drawn.append(list_landmarks(tmp_path / "flat", classes=4, test_images=3))
    shuffled_directories(3)
    drawn.append(list_landmarks(tmp_path / "flat", classes=4, test_images=3))
    for other in drawn[1:]:
        assert [Path(path).name for path in other.test.paths] == [Path(path).name for path in drawn[0].test.paths]
    assert drawn[2].train == drawn[0].train == drawn[3].train
    assert drawn[2].notes[-1] == "10 more image files are left out: not in train.csv, or there a second time"


@pytest.mark.parametrize("sign", ["train_clean.csv", "train_label_to_category.csv", "many landmarks"])
def test_version_2_is_stamped(tmp_path, sign, monkeypatch):
    landmark_table(tmp_path)
    landmark_images(tmp_path / "train", True, IDS)
    monkeypatch.setattr(landmarks, "VERSION_1_LANDMARKS", 5)
    assert list_landmarks(tmp_path, classes=2, test_images=2).name == "landmarks"
    if sign == "many landmarks":
        monkeypatch.setattr(landmarks, "VERSION_1_LANDMARKS", 4)
    else:
        touch(tmp_path, sign)
    found = list_landmarks(tmp_path, classes=2, test_images=2)
    assert found.name == "landmarks-v2" and found.notes[0].startswith("Google Landmarks version 2; the paper's")


def test_version_1_has_14951_landmarks():
    assert landmarks.VERSION_1_LANDMARKS == 14951


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,url\n1,x\n", r"train.csv, line 1: columns 'id,url', expected id,url,landmark_id"),
        ("", r"train.csv, line 1: columns '', expected id,url,landmark_id"),
        ("id,url,landmark_id\na,x,1\nb,1\n", r"train.csv, line 3: 'b,1': expected id,url,landmark_id"),
        ("id,url,landmark_id\na,x,1\n\na,x,2\n", r"train.csv, line 4: image 'a' is listed a second time"),
        ("id,url,landmark_id\n" + '"' + "x" * 200_000, r"train.csv: cannot be read as CSV"),
        ("id,url,landmark_id\na,\udcff,1\n", r"train.csv: cannot be read as CSV"),
        ("id,url,landmark_id\na,x,1\n", r"none of the 1 images of .*train.csv found: expected ID.jpg in"),
    ],
)
def test_what_is_wrong_with_the_table_of_landmarks_is_said(tmp_path, table, message):
    (tmp_path / "train.csv").write_text(table, errors="surrogateescape")
    with pytest.raises(ValueError, match=message):
        list_landmarks(tmp_path)


def test_what_is_wrong_with_landmarks_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"landmarks: no .*train.csv; put the train.csv of Google Landmarks version 1"):
        list_landmarks(tmp_path)
    landmark_table(tmp_path)
    landmark_images(tmp_path, False, IDS)
    with pytest.raises(ValueError, match=rf"landmarks, {re.escape(str(tmp_path))}: 1000 classes .*, expected 2 to 5"):
        list_landmarks(tmp_path)
    with pytest.raises(ValueError, match=r"class '1000' has 7 image\(s\), expected at least 21: .*4 of 4 classes"):
        list_landmarks(tmp_path, classes=4)


def test_which_of_two_copies_counts_does_not_hang_on_the_directory(tmp_path, shuffled_directories):
    landmark_table(tmp_path)
    landmark_images(tmp_path, True, IDS)
    for image_id in IDS:
        touch(tmp_path.joinpath(*image_id[:3]), f"{image_id}.PNG")  # a second file, and a third in a wrong place
        touch(tmp_path / "z", f"{image_id}.jpg")
    plain = list_landmarks(tmp_path, classes=4, test_images=3)
    for seed in range(3):
        shuffled_directories(seed)
        assert list_landmarks(tmp_path, classes=4, test_images=3) == plain


def test_a_table_with_blanks_after_its_commas(tmp_path):
    landmark_table(tmp_path)
    landmark_images(tmp_path, False, IDS)
    plain = list_landmarks(tmp_path, classes=3, test_images=2)
    table = tmp_path / "train.csv"
    table.write_text(table.read_text().replace('","', '", "'))
    assert list_landmarks(tmp_path, classes=3, test_images=2) == plain


def test_the_table_of_later_competitions_has_no_addresses(tmp_path):
    rows = "".join(f"{image_id},{landmark}\n" for image_id, landmark in IDS.items())
    (tmp_path / "train.csv").write_text("\ufeffid,landmark_id\n" + rows, encoding="utf-8")
    landmark_images(tmp_path / "train", True, IDS)
    assert list_landmarks(tmp_path, classes=2, test_images=2).class_names == ("1000", "70")
