"""Thumbnails of exemplars: bounded, best first, one row per class."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from scail.benchmark.thumbnails import generated_sheet, sheet_of, thumbnails_of_a_class


def pixels(sheet):
    return np.asarray(Image.open(io.BytesIO(sheet.data)))


def test_each_row_is_a_class_and_shows_its_exemplars_in_order():
    images = torch.arange(6, dtype=torch.uint8)[:, None, None, None].expand(6, 1, 8, 8).contiguous() * 40
    sheet = sheet_of(images, [torch.tensor([5, 2]), torch.tensor([1])], num_classes=10)
    assert (sheet.rows, sheet.columns, sheet.side, sheet.kind) == (2, 2, 8, "png")
    shown = pixels(sheet)
    assert shown.shape == (16, 16)
    corners = [[shown[0, 0], shown[0, 8]], [shown[8, 0], shown[8, 8]]]
    assert corners == [[200, 80], [40, 0]]  # the second class has one exemplar: the other place stays black


def test_large_colour_images_become_small():
    images = torch.randint(0, 256, (3, 3, 100, 100), dtype=torch.uint8)
    sheet = sheet_of(images, [torch.tensor([0, 1, 2])], num_classes=2)
    assert (sheet.side, sheet.kind) == (32, "jpg") and pixels(sheet).shape == (32, 96, 3)
    assert len(sheet.data) < 10_000


@pytest.mark.parametrize("exemplars", [[], [torch.tensor([], dtype=torch.int64)]])
def test_nothing_to_show_is_no_sheet(exemplars):
    assert sheet_of(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), exemplars, num_classes=2) is None


def test_thumbnails_stay_bounded_whatever_the_number_of_classes():
    for classes in (1, 7, 200, 1000, 2001, 10**6):
        assert thumbnails_of_a_class(classes) * classes <= 2000
    rows = [torch.arange(50) for _ in range(3)]
    assert sheet_of(torch.zeros(50, 1, 8, 8, dtype=torch.uint8), rows, num_classes=3).columns == 10


def test_generated_images_stand_beside_real_ones_of_their_class():
    images = torch.arange(6, dtype=torch.uint8)[:, None, None, None].expand(6, 1, 8, 8).contiguous() * 40
    asked = []

    def made_up(counts):
        asked.append(counts)
        labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        return (201 + labels).to(torch.uint8)[:, None, None, None].expand(-1, 1, 8, 8), labels

    real = [torch.tensor([5, 2]), torch.tensor([1])]  # of classes 3 and 4; the second one has one image
    sheet = generated_sheet(images, real, made_up, range(3, 5), num_classes=1000)
    assert asked == [[0, 0, 0, 2, 2]]
    assert (sheet.rows, sheet.columns, sheet.real) == (2, 4, 2)
    corners = pixels(sheet)[::8, ::8].tolist()
    assert corners == [[200, 80, 204, 204], [40, 0, 205, 205]]
    assert generated_sheet(images, real, made_up, range(3, 5), num_classes=5000) is None
