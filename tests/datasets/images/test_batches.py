from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scail.datasets.images.batches import Augmentation, channel_statistics, epoch_rows, training_batches
from scail.runtime.seeds import generator_for

IMAGES = torch.randint(1, 256, (23, 2, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(23)  # the label tells the image


def epoch(padding=2, mirror=False, seed=0, batch_size=4, start=0):
    generator = partial(generator_for, seed)
    return list(training_batches(IMAGES, LABELS, batch_size, Augmentation(padding, mirror), generator, start))


def is_crop(image, original, padding):
    """Whether `image` is the original, padded with zeros and cut out somewhere."""
    padded = np.pad(original, ((0, 0), (padding, padding), (padding, padding)))
    height, width = original.shape[1:]
    return any(
        np.array_equal(padded[:, top : top + height, left : left + width], image)
        for top in range(2 * padding + 1)
        for left in range(2 * padding + 1)
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20))
def test_every_row_comes_once_per_epoch_and_none_comes_alone(count, batch_size):
    batches = epoch_rows(count, batch_size, torch.Generator().manual_seed(1))
    assert sorted(torch.cat(batches).tolist()) == list(range(count))
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert len(batches[-1]) <= batch_size + 1
    assert len(batches[-1]) > 1 or count == 1


def test_a_lone_last_row_joins_the_batch_before():
    assert [len(batch) for batch in epoch_rows(9, 4, torch.Generator())] == [4, 5]
    assert [len(batch) for batch in epoch_rows(10, 4, torch.Generator())] == [4, 4, 2]
    assert [len(batch) for batch in epoch_rows(1, 4, torch.Generator())] == [1]


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("padding", [0, 2])
def test_an_epoch_has_every_image_once_as_a_crop_of_its_padded_self(padding, mirror):
    batches = epoch(padding, mirror)
    labels = torch.cat([labels for _, labels in batches])
    assert sorted(labels.tolist()) == LABELS.tolist()
    upright = turned = 0
    for image, label in zip(torch.cat([images for images, _ in batches]), labels, strict=True):
        assert image.dtype == torch.uint8
        original = IMAGES[label].numpy()
        upright += is_crop(image.numpy(), original, padding)
        turned += is_crop(image.flip(2).numpy(), original, padding)
    assert upright + turned == len(IMAGES)  # each is one or the other
    assert (turned > 0) == mirror
    assert upright > 0


def test_crops_reach_every_corner_and_differ_from_batch_to_batch():
    image = torch.arange(1, 10, dtype=torch.uint8).reshape(1, 1, 3, 3).expand(500, 1, 3, 3)  # one image 500 times
    generator = partial(generator_for, 0)
    batches = [images for images, _ in training_batches(image, torch.zeros(500), 50, Augmentation(1, False), generator)]
    crops = {tuple(crop.flatten().tolist()) for images in batches for crop in images}
    assert len(crops) == 9  # three offsets down, three to the right
    assert (0, 0, 0, 0, 1, 2, 0, 4, 5) in crops and (5, 6, 0, 8, 9, 0, 0, 0, 0) in crops
    assert len({images.numpy().tobytes() for images in batches}) == 10


def test_an_epoch_is_fixed_by_its_generators():
    assert equal(epoch(seed=1, mirror=True), epoch(seed=1, mirror=True))
    assert not equal(epoch(seed=1, mirror=True), epoch(seed=2, mirror=True))


@pytest.mark.parametrize("start", [0, 1, 3, 5, 6, 9])
def test_an_epoch_goes_on_from_any_batch_with_the_batches_it_would_have_had(start):
    whole = epoch(mirror=True)
    assert len(whole) == 6
    assert equal(epoch(mirror=True, start=start), whole[start:])


def equal(batches, others):
    if len(batches) != len(others):
        return False
    return all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(batches, others, strict=True))


def test_channel_statistics_are_numpys_mean_and_deviation():
    mean, deviation = channel_statistics(IMAGES)
    pixels = IMAGES.numpy().astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), pixels.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(deviation.numpy(), pixels.std((0, 2, 3)), rtol=1e-6)
    assert mean.dtype == deviation.dtype == torch.float32


def test_a_channel_without_contrast_has_the_deviation_one():
    # so that dividing by it does no harm
    mean, deviation = channel_statistics(torch.full((3, 1, 2, 2), 200, dtype=torch.uint8))
    assert (mean.tolist(), deviation.tolist()) == ([200], [1])
