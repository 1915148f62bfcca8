from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from scail.classifier.inputs import MOST_BYTES, Shape, Size, as_pixels, class_names_of, labelled
from scail.datasets.images.decode import BrokenImage, middle_square, read_region

DRAW = np.random.RandomState(0)
COLOUR = DRAW.randint(0, 256, (5, 12, 12, 3), dtype=np.uint8)
GREY = DRAW.randint(0, 256, (5, 12, 12), dtype=np.uint8)
FIRST = torch.from_numpy(COLOUR.transpose(0, 3, 1, 2).copy())


@pytest.mark.parametrize(
    "images",
    [
        COLOUR,
        FIRST,
        list(COLOUR),
        list(FIRST),
        COLOUR.transpose(0, 3, 1, 2),
        COLOUR.astype(np.int64),
        FIRST.double() / 255,
        (COLOUR / 255).astype(np.float32),
        [Image.fromarray(image) for image in COLOUR],
    ],
    ids=["array", "tensor", "list of arrays", "of tensors", "NCHW", "int64", "0 to 1", "float32", "PIL"],
)
def test_the_same_images_in_any_form_are_the_same(images):
    pixels = as_pixels(images, None, Size(12))
    assert pixels.dtype == torch.uint8
    assert torch.equal(pixels, FIRST)


def test_grey_images_have_one_channel():
    for images in (GREY, GREY[..., None], torch.from_numpy(GREY)[:, None], list(GREY)):
        pixels = as_pixels(images, None)
        assert torch.equal(pixels, torch.from_numpy(GREY)[:, None])


def test_files_are_scaled_as_the_benchmark_scales_them(tmp_path):
    wide = DRAW.randint(0, 256, (30, 50, 3), dtype=np.uint8)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    expected = read_region(str(tmp_path / "wide.png"), middle_square, 16).transpose(2, 0, 1)
    found = as_pixels(wide[None], None, Size(16))[0].numpy()
    inner = np.abs(found.astype(int) - expected)[:, :, 1:-1]  # at its sides Pillow looks past the square
    assert inner.max() <= 1 and (inner > 0).mean() < 0.03  # ties of rounding
    for given in (tmp_path / "wide.png", str(tmp_path / "wide.png"), [tmp_path / "wide.png"]):
        assert np.array_equal(as_pixels(given, None, Size(16))[0].numpy(), found)
    assert as_pixels([tmp_path / "wide.png"], None).shape == (1, 3, 64, 64)
    assert np.array_equal(as_pixels(Image.fromarray(wide), None, Size(16))[0].numpy(), found)


def test_later_images_take_the_shape_of_the_first_ones(tmp_path):
    Image.fromarray(COLOUR[0]).save(tmp_path / "colour.png")
    for shape in (Shape(1, 8, 8), Shape(3, 10, 10), Shape(1, 8, 14), Shape(3, 14, 8)):
        expected = (1, shape.channels, shape.height, shape.width)
        for image in (tmp_path / "colour.png", COLOUR[:1], GREY[:1], FIRST[:1], Image.fromarray(GREY[0])):
            assert as_pixels(image, shape).shape == expected


def test_a_picture_is_turned_as_its_camera_says(tmp_path):
    image = Image.fromarray(COLOUR[0])
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.png", exif=exif)
    from_file = as_pixels(tmp_path / "turned.png", None, Size(12))
    with Image.open(tmp_path / "turned.png") as opened:
        assert torch.equal(as_pixels(opened, None, Size(12)), from_file)
    assert not torch.equal(from_file, FIRST[:1])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 12, 12, 2), np.uint8), "with 1 or 3 channels"),
        (np.zeros((2, 12)), r"images of shape \(2, 12\): expected N x height x width"),
        (np.full((2, 12, 12), 300), "from 300 to 300: expected whole numbers from 0 to 255, or from 0 to 1"),
        (np.full((2, 12, 12), -0.5), "undo any normalisation"),
        (np.full((2, 12, 12), np.nan), "not all finite"),
        ([], "no images: expected at least one"),
        ([3], "image 0 is a int: expected an array, a tensor, a path or a PIL image"),
        ([np.zeros(4)], r"image 0 has the shape \(4,\)"),
        (np.zeros((2, 4, 4), np.uint8), "expected 1 or 3 channels and 8 to 1024 pixels; give image_size"),
        (["nosuch.png"], "nosuch.png: no such image"),
    ],
)
def test_what_is_no_image_is_a_clear_error(images, message):
    with pytest.raises(ValueError, match=message):
        as_pixels(images, None)


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"not an image")
    for shape in (Shape(3, 8, 8), Shape(3, 8, 16)):
        with pytest.raises(BrokenImage, match=r"broken.jpg: cannot be read as an image"):
            as_pixels([tmp_path / "broken.jpg"], shape)


def test_more_than_fits_is_said_before_it_is_decoded(tmp_path):
    count = MOST_BYTES // (3 * 1024 * 1024) + 1
    with pytest.raises(ValueError, match="GiB in one call: give fewer images, or a smaller image size"):
        as_pixels(["nosuch.png"] * count, None, Size(1024))


@pytest.mark.parametrize("label", [None, "", "  ", 1.5, float("nan"), True, b"x", "line\nbreak", "x" * 201, ["a"]])
def test_what_is_no_label_is_a_clear_error(label):
    with pytest.raises(ValueError, match="label of image 1 is"):
        class_names_of(["a", label])


def test_labels_may_be_text_or_whole_numbers():
    assert class_names_of(["a", "b c"]) == ["a", "b c"]
    assert (
        class_names_of(np.array([3, 1])) == class_names_of(torch.tensor([3, 1])) == class_names_of((3, 1)) == ["3", "1"]
    )
    assert class_names_of(np.array(["x", "y"])) == ["x", "y"]
    for labels in ("abc", 7):
        with pytest.raises(ValueError, match="expected one label for each image"):
            class_names_of(labels)


def test_a_generator_of_images_is_a_clear_error():
    with pytest.raises(ValueError, match="images of type generator: expected an array, a tensor or a list"):
        labelled((image for image in COLOUR), ["a"] * 5)
