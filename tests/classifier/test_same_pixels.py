"""A picture gives the same pixels, and so the same answers, whichever way it comes in."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from scail.classifier.inputs import Shape, as_pixels
from scail.cli.learn import read_data
from scail.datasets.images.decode import BrokenImage
from tests.classifier.little import little


@pytest.fixture
def photographs(tmp_path):
    """Two classes of JPEGs that are several times as large as the model's images, one of them turned."""
    draw = np.random.default_rng(0)
    for c in "ab":
        (tmp_path / c).mkdir()
        for i in range(2):
            coarse = Image.fromarray(draw.integers(0, 256, (12, 9, 3), np.uint8))
            exif = Image.Exif()
            exif[0x0112] = 6 if i else 1
            coarse.resize((400, 300)).save(tmp_path / c / f"{i}.jpg", quality=90, exif=exif)
    return tmp_path


def test_a_folder_gives_the_pixels_of_paths_pictures_arrays_and_bytes(photographs):
    told = []
    data = read_data(str(photographs), little(image_size=32), None, "error", report=told.append)
    images = data.images
    assert data.names == ["a", "a", "b", "b"] and data.mirror and images.shape == (4, 3, 32, 32)
    assert [(at.epoch, at.epochs, at.unit) for at in told] == [(i, 4, "picture") for i in range(1, 5)]
    paths = [photographs / c / f"{i}.jpg" for c in "ab" for i in range(2)]
    shape = Shape(3, 32, 32)
    assert torch.equal(images, as_pixels(paths, shape))
    assert torch.equal(images, as_pixels([path.read_bytes() for path in paths], shape))
    assert torch.equal(images, as_pixels([Image.open(path) for path in paths], shape))
    whole = Image.open(io.BytesIO(paths[0].read_bytes())).convert("RGB")
    assert torch.equal(images[:1], as_pixels([np.asarray(whole)], shape))


def test_a_broken_picture_is_named_with_a_remedy_that_exists(photographs):
    (photographs / "a" / "0.jpg").write_bytes(b"\xff\xd8\xff no picture")
    clf = little(image_size=32)
    with pytest.raises(BrokenImage, match=r"0\.jpg: cannot be read .* or use --broken skip"):
        read_data(str(photographs), clf, None, "error")
    with pytest.raises(BrokenImage, match=r"0\.jpg: cannot be read .*; repair or remove it$"):  # scail evaluate
        read_data(str(photographs), clf, None, "error", test=True)
    data = read_data(str(photographs), clf, None, "skip")
    assert len(data.images) == 3 and data.broken == 1
