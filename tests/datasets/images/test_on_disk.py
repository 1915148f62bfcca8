"""Images that stay on disk: decoding, regions, batches, broken images, packed copies."""

from __future__ import annotations

import io
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scail.cli.main import main
from scail.datasets import DataSettings, load_dataset
from scail.datasets.images import decode
from scail.datasets.images.batches import (
    Augmentation,
    centre_batches,
    channel_statistics,
    random_region,
    training_batches,
)
from scail.datasets.images.decode import BrokenImage, middle_square, read_region
from scail.datasets.images.on_disk import ImageTable, table_of_files
from scail.datasets.images.packed import pack
from scail.runtime.seeds import generator_for


def photograph(path: Path, seed: int, size: tuple[int, int] = (90, 60), **save: object) -> None:
    """A smooth random picture: JPEG keeps it well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    few = np.random.default_rng(seed).integers(0, 255, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(few).resize(size, Image.Resampling.BICUBIC).save(path, **save)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    for c in range(3):
        for n in range(10):
            photograph(tmp_path / "photos" / f"class{c}" / f"{n}.jpg", 10 * c + n)
    return tmp_path / "photos"


def table(folder: Path, size: int = 24, workers: int = 2) -> ImageTable:
    return table_of_files(sorted(map(str, folder.rglob("*.jpg"))), size, workers)


# ------------------------------------------------------------------------------------------------------- one image


def test_a_region_is_what_pillow_would_cut_out_of_the_whole_image(tmp_path):
    photograph(tmp_path / "a.png", 1)
    with Image.open(tmp_path / "a.png") as whole:
        expected = np.asarray(whole.crop((10, 20, 50, 60)).resize((16, 16), Image.Resampling.BILINEAR))
    found = read_region(tmp_path / "a.png", lambda width, height: (10, 20, 50, 60), 16)
    assert np.abs(found.astype(int) - expected).max() <= 6  # resize with a box also looks beyond the edge


def test_a_large_jpeg_is_decoded_smaller_and_looks_the_same(tmp_path, monkeypatch):
    photograph(tmp_path / "a.jpg", 1, (1600, 1200), quality=95)
    drafts = []
    original = Image.Image.resize
    monkeypatch.setattr(
        Image.Image, "resize", lambda self, *a, **k: (drafts.append(self.size), original(self, *a, **k))[1]
    )
    small = read_region(tmp_path / "a.jpg", middle_square, 64)
    assert drafts == [(200, 150)]  # an eighth: the middle square still has 150 pixels for the 64
    monkeypatch.setattr("PIL.JpegImagePlugin.JpegImageFile.draft", lambda *a: None)
    exact = read_region(tmp_path / "a.jpg", middle_square, 64)
    assert drafts[-1] == (1600, 1200) and np.abs(small.astype(int) - exact).mean() < 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_followed_whatever_the_region(tmp_path, orientation):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    photograph(tmp_path / "a.jpg", 3, (80, 60), exif=exif, quality=95)
    with Image.open(tmp_path / "a.jpg") as stored:
        whole = ImageOps.exif_transpose(stored).convert("RGB")
    left, top, right, bottom = middle_square(*whole.size)
    expected = np.asarray(whole.crop((left, top, right, bottom)).resize((20, 20), Image.Resampling.BILINEAR))
    assert np.abs(read_region(tmp_path / "a.jpg", middle_square, 20).astype(int) - expected).max() <= 8


def test_truncated_and_bomb_sized_images_are_named(tmp_path, monkeypatch):
    photograph(tmp_path / "cut.jpg", 1, (300, 200))
    whole = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BrokenImage, match=r"cut.jpg: cannot be read as an image \(.*truncated"):
        read_region(tmp_path / "cut.jpg", middle_square, 16)
    photograph(tmp_path / "large.png", 1, (300, 200))
    monkeypatch.setattr(decode, "MOST_PIXELS", 300 * 200 - 1)
    with pytest.raises(BrokenImage, match=r"large.png: .*300 x 200 pixels, expected at most 59999"):
        read_region(tmp_path / "large.png", middle_square, 16)
    with pytest.raises(BrokenImage, match="an image in a table"):
        read_region(b"no image", middle_square, 16)


# --------------------------------------------------------------------------------------------------------- batches


def test_random_regions_stay_inside_and_cover_8_to_100_percent():
    numbers = torch.rand(2000, 10, 4, generator=generator_for(0, "test")).tolist()
    areas, lefts = [], set()
    for mine in numbers:
        left, top, right, bottom = random_region(90, 60, mine)
        assert 0 <= left < right <= 90 and 0 <= top < bottom <= 60
        assert 0.7 < (right - left) / (bottom - top) < 1.42
        areas.append((right - left) * (bottom - top) / 5400)
        lefts.add(left)
    assert min(areas) < 0.1 and max(areas) > 0.85 and len(lefts) > 40
    # Nothing fits into a strip: the middle of it, as large as a permitted ratio allows.
    assert random_region(300, 10, [[0.99, 0.5, 0.5, 0.5]] * 10) == (143, 0, 156, 10)


def test_an_epoch_from_disk_has_every_image_once_and_can_go_on_in_the_middle(folder):
    images, labels = table(folder), torch.arange(30)
    draw = partial(generator_for, 1, "epoch")
    whole = list(training_batches(images, labels, 8, Augmentation(), draw))
    assert [len(batch) for batch, _ in whole] == [8, 8, 8, 6] and whole[0][0].shape == (8, 3, 24, 24)
    assert sorted(torch.cat([rows for _, rows in whole]).tolist()) == list(range(30))
    rest = list(training_batches(table(folder, workers=5), labels, 8, Augmentation(), draw, start=2))
    for (batch, rows), (again, same) in zip(whole[2:], rest, strict=True):
        assert torch.equal(batch, again) and torch.equal(rows, same)  # also with another number of workers
    other = next(training_batches(images, labels, 8, Augmentation(), partial(generator_for, 2, "epoch")))
    assert not torch.equal(other[0], whole[0][0])


def test_mirroring_is_drawn_and_can_be_left_out(folder, monkeypatch):
    monkeypatch.setattr(
        "scail.datasets.images.batches.random_region", lambda width, height, numbers: middle_square(width, height)
    )
    images, labels, draw = table(folder), torch.arange(30), partial(generator_for, 1, "epoch")
    plain = next(training_batches(images, labels, 30, Augmentation(mirror=False), draw))
    mirrored = next(training_batches(images, labels, 30, Augmentation(mirror=True), draw))
    same = [torch.equal(a, b) for a, b in zip(plain[0], mirrored[0], strict=True)]
    flipped = [torch.equal(a, b.flip(2)) for a, b in zip(plain[0], mirrored[0], strict=True)]
    assert all(a != b for a, b in zip(same, flipped, strict=True)) and 5 < sum(flipped) < 25


def test_test_images_are_the_middle_seven_eighths_and_in_order(folder):
    images = table(folder)
    found = torch.cat(list(centre_batches(images, 7)))
    for i in (0, 13, 29):
        expected = images.read(i, lambda width, height: middle_square(width, height, 224 / 256))
        assert np.array_equal(found[i].permute(1, 2, 0).numpy(), expected)
    mean, deviation = channel_statistics(images)
    assert torch.allclose(mean, found.float().mean((0, 2, 3)), atol=1e-3)
    assert torch.allclose(deviation, found.float().std((0, 2, 3)), atol=0.1)


def test_a_broken_image_in_a_batch_is_named(folder):
    (folder / "class1" / "4.jpg").write_bytes(b"\xff\xd8 broken")
    with pytest.raises(BrokenImage, match=r"class1/4.jpg: cannot be read"):
        list(centre_batches(table(folder), 8))


def test_memory_does_not_grow_with_the_number_of_images(folder):
    def peak(times: int) -> int:
        images = table(folder, size=64)
        images = images[torch.arange(30).repeat(times)]
        tracemalloc.start()  # counts numpy's memory; a decoded image has 12 kB
        for _ in training_batches(images, torch.zeros(len(images)), 10, Augmentation(), partial(generator_for, 1)):
            pass
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(1)  # imports
    assert peak(20) < peak(2) + 540 * 64 * 64 * 3 / 10  # 540 more images would be 6.6 MB


# ---------------------------------------------------------------------------------------------------- the data set


def test_large_images_stay_on_disk_and_small_ones_are_kept_in_memory(folder):
    assert isinstance(load_dataset(str(folder), DataSettings(image_size=64)).train.images, torch.Tensor)
    large = load_dataset(str(folder), DataSettings(image_size=96))
    assert isinstance(large.train.images, ImageTable) and large.shape == (3, 96, 96)
    assert isinstance(load_dataset(str(folder), DataSettings(on_disk=True)).train.images, ImageTable)
    kept = load_dataset(str(folder), DataSettings(image_size=96, on_disk=False))
    assert torch.equal(kept.train.images, large.train.images.in_memory())
    assert large.split == "20% of each class held out, seed 0"
    other = load_dataset(str(folder), DataSettings(image_size=96, split_seed=1))
    assert other.fingerprint != large.fingerprint and len(other.test) == len(large.test) == 6


def test_a_changed_image_changes_the_fingerprint(folder):
    before = load_dataset(str(folder), DataSettings(on_disk=True)).fingerprint
    photograph(folder / "class0" / "0.jpg", 77)
    assert load_dataset(str(folder), DataSettings(on_disk=True)).fingerprint != before


def test_broken_images_are_skipped_and_counted_when_asked(folder):
    for n in (2, 3):
        (folder / "class1" / f"{n}.jpg").write_bytes(b"\xff\xd8 broken")
    with pytest.raises(BrokenImage, match="--broken skip"):
        load_dataset(str(folder))
    for on_disk in (False, True):
        dataset = load_dataset(str(folder), DataSettings(broken="skip", on_disk=on_disk))
        assert len(dataset.train) + len(dataset.test) == 28
        assert dataset.notes[0].startswith("2 broken training image(s) left out, the first: ")
        assert "class1/2.jpg" in dataset.notes[0] and "use --broken skip" not in dataset.notes[0]


def test_a_run_from_disk_is_the_same_with_any_number_of_workers(folder, tmp_path, capsys):
    asked = f"run --dataset {folder} --images disk --image-size 16 --states 3 --memory 3 --methods ft,scail,full"
    asked += " --select random --epochs 1 --batch-size 8 --jobs 1"
    results = []
    for workers in ("1", "3"):
        out = tmp_path / f"out{workers}"
        with pytest.raises(SystemExit) as ended:
            main(
                [*asked.split(), "--workers", workers, "--out", str(out), "--store", str(tmp_path / f"store{workers}")]
            )
        assert ended.value.code == 0
        import json

        rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        results.append([(row["method"], row["state"], row["top1"], row["scores"]) for row in rows])
        config = json.loads((out / "config.json").read_text())
        assert config["dataset"]["on_disk"] and config["dataset"]["split"].startswith("20% of each class")
    assert results[0] == results[1]
    assert "20% of each class held out, seed 0" in capsys.readouterr().out


# --------------------------------------------------------------------------------------------------- packed copies


def test_a_packed_copy_is_smaller_and_shows_the_same_images(folder, tmp_path):
    big = tmp_path / "large"
    for c in range(2):
        for n in range(4):
            photograph(big / f"c{c}" / f"{n}.jpg", 10 * c + n, (400, 300), quality=95)
    settings = DataSettings(on_disk=True, image_size=48)
    dataset = load_dataset(str(big), settings)
    done = []
    pack(dataset, tmp_path / "packed", 64, 92, done.append)
    assert sum(done) == 8
    packed = load_dataset(str(tmp_path / "packed"), settings)
    assert (packed.name, packed.class_names, packed.split) == ("large", ("c0", "c1"), dataset.split)
    assert packed.notes == ("packed copy: shorter side at most 64 pixels, JPEG quality 92",)
    for split, original in ((packed.train, dataset.train), (packed.test, dataset.test)):
        assert torch.equal(split.labels, original.labels)
        difference = split.images.in_memory().float() - original.images.in_memory().float()
        assert difference.abs().mean() < 3
    with Image.open(io.BytesIO(packed.train.images.file(0))) as first:
        assert min(first.size) == 64 and first.format == "JPEG"
    assert sum(f.stat().st_size for f in (tmp_path / "packed").iterdir()) < sum(
        f.stat().st_size for f in big.rglob("*.jpg")
    )
    from datasets import Dataset as Table

    assert Table.from_file(str(tmp_path / "packed" / "train-00000.arrow"))[0]["image"].size == (85, 64)


def test_packing_goes_on_where_it_was_stopped_and_refuses_other_data(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("scail.datasets.images.packed._SHARD", 5)
    dataset = load_dataset(str(folder), DataSettings(on_disk=True))

    class Stopped(Exception):
        pass

    def stop(count: int) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        pack(dataset, tmp_path / "packed", 32, 92, stop)
    first = (tmp_path / "packed" / "train-00000.arrow").stat().st_mtime_ns
    with pytest.raises(ValueError, match="other data or settings"):
        pack(dataset, tmp_path / "packed", 40, 92)
    pack(dataset, tmp_path / "packed", 32, 92)
    assert (tmp_path / "packed" / "train-00000.arrow").stat().st_mtime_ns == first
    assert len(list((tmp_path / "packed").glob("train-*.arrow"))) == 5 and not list(tmp_path.rglob(".*"))
    assert len(load_dataset(str(tmp_path / "packed")).train) == 24
    with pytest.raises(ValueError, match="holds other files"):
        pack(dataset, folder, 32, 92)
    (tmp_path / "packed" / "train-00001.arrow").unlink()
    with pytest.raises(ValueError, match="19 train images, expected 24"):
        load_dataset(str(tmp_path / "packed"))


def test_scail_prepare_packs_and_scail_run_uses_it_by_name(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SCAIL_DATA", str(tmp_path / "data"))
    with pytest.raises(SystemExit) as ended:
        main(["prepare", str(folder), "--size", "32"])
    assert ended.value.code == 0
    assert "30 images of 3 classes" in capsys.readouterr().out
    assert load_dataset("photos-32").name == "photos"
    for wrong, message in (
        ([str(folder), "--size", "4"], "expected 8 to 4096"),
        (["digits"], "embedded"),
        (["cifar100", "a", "b"], "only vggface2"),
        (["vggface2", str(folder)], "give the folder for the cropped faces"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["prepare", *wrong])
        assert ended.value.code == 2 and message in capsys.readouterr().err.replace("\n", " ")
