import errno
import unicodedata
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
import torch
from fontTools.ttLib import TTFont
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from scail.datasets import DATASETS, Dataset, DataSettings, Split, load_dataset
from scail.datasets.images.on_disk import ImageTable
from scail.datasets.places import data_dir
from scail.datasets.sources import glyphs
from scail.datasets.sources.digits import load_digits
from scail.datasets.sources.glyphs import CHARACTERS, FONTS, font_path, load_glyphs

# ---------------------------------------------------------------------------------------------------------- glyphs


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def draw_anew(monkeypatch, tmp_path, **settings):
    """A few glyphs, from a cache that was never used."""
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / str(len(list(tmp_path.iterdir())))))
    return load_glyphs(**{"classes": 4, "train": 5, "test": 3} | settings)


def test_glyphs_are_the_same_for_the_same_seed_and_others_for_another(monkeypatch, tmp_path):
    first, again = draw_anew(monkeypatch, tmp_path, seed=1), draw_anew(monkeypatch, tmp_path, seed=1)
    assert len(list(tmp_path.iterdir())) == 2  # drawn twice, not read from one cache
    assert torch.equal(first.train.images, again.train.images) and torch.equal(first.test.images, again.test.images)
    assert first.fingerprint == again.fingerprint
    other = draw_anew(monkeypatch, tmp_path, seed=2)
    assert differing_images(first.train, other.train) == 20 and differing_images(first.test, other.test) == 12


def test_train_and_test_glyphs_are_drawn_apart(monkeypatch, tmp_path):
    both = draw_anew(monkeypatch, tmp_path, train=5, test=5)
    assert differing_images(both.train, both.test) == 20
    # more test images change nothing in the training images, nor do more classes
    more = draw_anew(monkeypatch, tmp_path, train=5, test=6, classes=5)
    assert torch.equal(more.train.images[:20], both.train.images)


def differing_images(split, other):
    return int((split.images != other.images).flatten(1).any(1).sum())


def test_settings_of_glyphs_are_respected(empty_cache):
    dataset = load_glyphs(classes=3, train=4, test=2, size=14)
    assert dataset.class_names == tuple(CHARACTERS[:3]) and dataset.shape == (1, 14, 14)
    assert dataset.train.images.shape == (12, 1, 14, 14) and dataset.train.images.dtype == torch.uint8
    assert dataset.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert dataset.test.images.shape == (6, 1, 14, 14)
    assert dataset.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert not dataset.mirror  # a mirrored letter is no letter
    assert dataset.train.images.float().flatten(1).std(1).min() > 5  # there is something on every image


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": 1}, "classes is 1"),
        ({"classes": len(CHARACTERS) + 1}, f"expected 2 to {len(CHARACTERS)}"),
        ({"train": 0}, "0 training and 20 test images"),
        ({"test": 0}, "100 training and 0 test images"),
        ({"size": 7}, "image size is 7"),
        ({"size": 257}, "image size is 257"),
    ],
)
def test_settings_that_cannot_be_are_an_error(settings, message):
    with pytest.raises(ValueError, match=message):
        load_glyphs(**settings)


def test_glyphs_are_read_from_the_cache_the_second_time(empty_cache, monkeypatch):
    drawn = load_glyphs(classes=2, train=2, test=2)
    assert len(list(empty_cache.iterdir())) == 1

    def no_drawing(*args):
        raise AssertionError("drawn again")

    monkeypatch.setattr(glyphs, "_draw_class", no_drawing)
    assert load_glyphs(classes=2, train=2, test=2).fingerprint == drawn.fingerprint
    with pytest.raises(AssertionError, match="drawn again"):
        load_glyphs(classes=2, train=2, test=2, seed=1)  # other settings, another file


@pytest.mark.parametrize("damage", [lambda content: content[:-7], lambda content: b"", lambda content: b"x" * 50])
def test_a_damaged_cache_file_is_drawn_anew(empty_cache, damage):
    drawn = load_glyphs(classes=2, train=2, test=2)
    (file,) = empty_cache.iterdir()
    sound = file.read_bytes()
    file.write_bytes(damage(sound))
    assert load_glyphs(classes=2, train=2, test=2).fingerprint == drawn.fingerprint
    assert file.read_bytes() == sound and list(empty_cache.iterdir()) == [file]


def test_a_cache_that_cannot_be_written_costs_no_result(empty_cache, monkeypatch):
    def full_disk(begun, path):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    dataset = load_glyphs(classes=2, train=2, test=2)
    assert len(dataset.train) == 4 and not list(empty_cache.iterdir())


# ------------------------------------------------------------------------------------- the characters of the glyphs

# Characters of one group look alike, at least in some font and at some size: at most one of each may be a class.
LOOK_ALIKES = """
    AΑА BΒВ EΕЕ HΗН KΚКkκк MΜМ NΝ OoОоΟο0 PΡРpрρ CcСсϹϲ SsЅѕ TΤТτт XxХхΧχ× YyУуγΥ VvνѴѵ∨ WwԜѡ ZzΖ UuՍ∪ JjЈј Il1|ΙІӀi
    3Ззʒ 6б ΦφфФ Ψψ ΘθѲ ΠПπ∏п ΛЛ∧ ΓГr Σ∑ Δ∆△ μµu εєϵ∈ α∝ɑ aаɑ eе℮ hһћ nпη Дд Жж Ии Цц Чч Шш Щщ Ээ Юю Яя Ыы βß Ω\u2126
    ωѡw ∇▽ √✓ ∫ʃſ DÐ d∂ԁ ⊥┴ ◊◇ †‡ QԚ GԌ L∟ fƒ ©® ⌐¬ ÆӔ
"""

# The same as pixels, averaged over the fonts: the closest two characters (A and Λ) reach 0.963; S and s have 0.977.
MOST_ALIKE = 0.968
SIDE = 32


def test_there_are_a_hundred_characters_or_more_and_none_comes_twice():
    assert len(CHARACTERS) >= 100
    # nor in disguise: to Unicode the micro sign is μ, and the Ohm sign is Ω
    assert len({unicodedata.normalize("NFKC", character) for character in CHARACTERS}) == len(CHARACTERS)


@pytest.mark.parametrize("group", LOOK_ALIKES.split())
def test_of_characters_that_look_alike_one_at_most_is_a_class(group):
    assert len(set(group)) == len(group)
    assert len(set(group) & set(CHARACTERS)) <= 1


def outline(character, font):
    """The character in large, cut to its outline."""
    face = ImageFont.truetype(str(font_path(font)), 2 * SIDE, layout_engine=ImageFont.Layout.BASIC)
    left, top, right, bottom = face.getbbox(character)
    drawn = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
    ImageDraw.Draw(drawn).text((1 - left, 1 - top), character, font=face, fill=255)
    return drawn.crop(drawn.getbbox())


def shape(character, font):
    """The outline stretched to a square, since the data set stretches too; lightly blurred, as a unit vector."""
    square = Image.new("L", (SIDE + 8, SIDE + 8))
    square.paste(outline(character, font).resize((SIDE, SIDE), Image.Resampling.BOX), (4, 4))
    pixels = np.asarray(square.filter(ImageFilter.GaussianBlur(1.5)), np.float64).ravel()
    return pixels / np.linalg.norm(pixels)


def likeness(characters):
    """Cosine similarity of each two characters, averaged over the fonts."""
    shapes = [np.stack([shape(character, font) for character in characters]) for font in FONTS]
    return np.mean([vectors @ vectors.T for vectors in shapes], axis=0)


def test_no_two_characters_have_nearly_the_same_shape():
    alike = likeness(CHARACTERS)
    too_close = [
        (CHARACTERS[a], CHARACTERS[b], round(alike[a, b], 3))
        for a, b in combinations(range(len(CHARACTERS)), 2)
        if alike[a, b] > MOST_ALIKE
    ]
    assert not too_close


@pytest.mark.parametrize("pair", ["AΑ", "AА", "BВ", "HН", "OО", "ΠП", "Ss", "Xx", "Xх", "Zz", "Vv", "Ww", "3З", "Жж"])
def test_the_measure_finds_characters_that_do_look_alike(pair):
    assert likeness(pair)[0, 1] > MOST_ALIKE


@pytest.mark.parametrize("font", FONTS)
def test_every_font_has_every_character(font):
    with TTFont(font_path(font)) as opened:
        known = opened.getBestCmap()
    missing_glyph = chr(0x10FFFD)  # private use: no font has it
    assert ord(missing_glyph) not in known
    box = outline(missing_glyph, font)
    for character in CHARACTERS:
        assert known.get(ord(character), ".notdef") != ".notdef", character
        drawn = outline(character, font)
        assert drawn.size != box.size or drawn.tobytes() != box.tobytes(), character


# --------------------------------------------------------------------------------------------- digits and cifar100


def test_digits_are_scikit_learns_scans_each_in_one_part_with_a_fifth_of_every_class_held_out():
    dataset, scans = load_digits(), sklearn.datasets.load_digits()
    assert dataset.class_names == tuple("0123456789") and dataset.shape == (1, 8, 8) and not dataset.mirror
    assert torch.bincount(dataset.test.labels).tolist() == [-(-count // 5) for count in np.bincount(scans.target)]
    # levels 0..16 become 0..255, and every scan keeps its label; no two scans are equal, so bytes tell them apart
    pixels = (scans.images * 255 / 16).round().astype(np.uint8)
    expected = {(image.tobytes(), int(label)) for image, label in zip(pixels, scans.target, strict=True)}
    parts = [
        {(image.numpy().tobytes(), int(label)) for image, label in zip(split.images, split.labels, strict=True)}
        for split in (dataset.train, dataset.test)
    ]
    assert len(expected) == len(dataset.train) + len(dataset.test) == 1797
    assert parts[0] | parts[1] == expected and not parts[0] & parts[1]


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The library that reads Parquet files; its own copies go to the test's folder, not to the user's."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    return datasets


def test_cifar100_is_read_from_parquet_files_and_then_from_the_cache(hub, empty_cache, monkeypatch, tmp_path):
    monkeypatch.setenv("SCAIL_DATA", str(tmp_path))
    kinds = hub.Features({"img": hub.Image(), "fine_label": hub.ClassLabel(names=["apple", "baby"])})
    colours = {"train": [(1, 2, 3), (4, 5, 6), (7, 8, 9)], "test": [(10, 20, 30), (40, 50, 60)]}
    for part, pixels in colours.items():
        rows = {"img": [Image.new("RGB", (32, 32), pixel) for pixel in pixels], "fine_label": [1, 0, 1][: len(pixels)]}
        hub.Dataset.from_dict(rows, features=kinds).to_parquet(
            (data_dir() / "cifar100") / f"{part}-00000-of-00001.parquet"
        )
    for _ in range(2):
        dataset = load_dataset("cifar100")
        assert dataset.class_names == ("apple", "baby") and dataset.shape == (3, 32, 32) and dataset.mirror
        assert dataset.train.labels.tolist() == [1, 0, 1] and dataset.test.labels.tolist() == [1, 0]
        for split, pixels in ((dataset.train, colours["train"]), (dataset.test, colours["test"])):
            assert (split.images == torch.tensor(pixels)[:, :, None, None]).all()
        monkeypatch.setattr(ImageTable, "in_memory", None)  # the second time comes from the cache


def test_cifar100_without_its_files_says_where_they_belong(monkeypatch, tmp_path):
    monkeypatch.setenv("SCAIL_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=rf"not in {tmp_path / 'cifar100'} .*hf download uoft-cs/cifar100"):
        load_dataset("cifar100")


def test_cifar100_has_500_training_and_100_test_images_a_class(hub):
    if not (data_dir() / "cifar100").is_dir():
        pytest.skip(f"no CIFAR-100 in {(data_dir() / 'cifar100')}: set SCAIL_DATA to the folder that holds cifar100/")
    dataset = load_dataset("cifar100")
    assert dataset.shape == (3, 32, 32) and len(set(dataset.class_names)) == 100
    assert torch.bincount(dataset.train.labels).tolist() == [500] * 100
    assert torch.bincount(dataset.test.labels).tolist() == [100] * 100


# ---------------------------------------------------------------------------------------------- data sets in general


def make_split(*labels):
    return Split(torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None], torch.tensor(labels))


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ((0, 0), (0, 1), "no training images for class.*'b'"),
        ((0, 1), (1, 1), "no test images for class.*'a'"),
        ((0, 1, 2), (0, 1), "a training label is 2, expected 0 to 1"),
        ((0, 1), (0, 1, 7), "a test label is 7"),
        ((0, 1, -1), (0, 1), "training label.*-1"),
    ],
)
def test_labels_and_classes_must_fit_each_other(train, test, message):
    with pytest.raises(ValueError, match=message):
        Dataset("letters", ("a", "b"), make_split(*train), make_split(*test))


def test_the_fingerprint_knows_pixels_labels_and_names():
    def fingerprint(names=("a", "b"), train=(0, 1, 1), test=(0, 1), brighter=0):
        split = make_split(*train)
        return Dataset("letters", names, Split(split.images + brighter, split.labels), make_split(*test)).fingerprint

    assert fingerprint() == fingerprint()
    others = [{"names": ("a", "c")}, {"train": (0, 0, 1)}, {"test": (1, 0)}, {"brighter": 1}]
    assert len({fingerprint(), *(fingerprint(**other) for other in others)}) == 5


def test_an_unknown_data_set_is_an_error():
    with pytest.raises(ValueError, match=f"no data set of this name; did you mean mnist.*{', '.join(DATASETS)}"):
        load_dataset("minst")


def test_a_data_set_is_cut_down_to_its_first_classes_and_training_images():
    whole, part = load_digits(), load_dataset("digits", DataSettings(classes=3, images_per_class=5))
    assert part.class_names == ("0", "1", "2") and not part.mirror
    assert torch.bincount(part.train.labels).tolist() == [5, 5, 5]
    for c in range(3):
        assert torch.equal(part.train.images[part.train.labels == c], whole.train.images[whole.train.labels == c][:5])
    # test images are not cut: accuracies stay comparable
    assert torch.equal(part.test.images, whole.test.images[whole.test.labels < 3])
    assert torch.bincount(load_dataset("digits", DataSettings(images_per_class=2)).train.labels).tolist() == [2] * 10
    assert load_dataset("digits", DataSettings(images_per_class=1000)).fingerprint == whole.fingerprint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": 1}, "classes is 1, expected 2 to 10"),
        ({"classes": 11}, "classes is 11, expected 2 to 10"),
        ({"images_per_class": 0}, "images per class is 0"),
        ({"image_size": 16}, "digits has its own, 8 pixels"),
    ],
)
def test_a_cut_that_cannot_be_is_an_error(settings, message):
    with pytest.raises(ValueError, match=message):
        load_dataset("digits", DataSettings(**settings))


def test_glyphs_are_drawn_as_asked_for(empty_cache):
    dataset = load_dataset("glyphs", DataSettings(classes=2, images_per_class=3, image_size=12))
    assert dataset.train.images.shape == (6, 1, 12, 12) and len(dataset.class_names) == 2


@pytest.mark.parametrize("name", ["digits", "glyphs"])
def test_to_tune_the_test_images_are_left_alone(name):
    whole = load_dataset(name, DataSettings(classes=5, images_per_class=None if name == "digits" else 40))
    settings = DataSettings(classes=5, images_per_class=None if name == "digits" else 40, tune=True, held_out=0.25)
    tuning = load_dataset(name, settings)

    def images(split) -> set[bytes]:
        return {image.numpy().tobytes() for image in split.images}

    assert not images(tuning.train) & images(tuning.test)
    assert images(tuning.train) | images(tuning.test) == images(whole.train)
    assert 0.2 < len(tuning.test) / len(whole.train) < 0.3
    assert tuning.split == "25% of each class held out of its training images, to tune, seed 0"
