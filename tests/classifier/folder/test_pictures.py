"""Images as PNG files: whoever reads PNG finds the very same pixels."""

from __future__ import annotations

import importlib.util
import sys
from io import BytesIO

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scail.classifier.folder import pictures
from scail.classifier.folder.pictures import digest_of, read_png, to_png
from scail.classifier.folder.record import DamagedModel
from scail.classifier.inputs import Shape


def noise(channels, height, width, seed=0, levels=256):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(0, levels, (channels, height, width), dtype=torch.uint8, generator=draw)


@given(
    st.sampled_from([1, 3]), st.integers(8, 40), st.integers(8, 40), st.integers(0, 99), st.sampled_from([1, 2, 256])
)
def test_others_read_the_same_pixels(channels, height, width, seed, levels):
    image = noise(channels, height, width, seed, levels)
    with Image.open(BytesIO(to_png(image))) as opened:
        opened.verify()  # every checksum
    with Image.open(BytesIO(to_png(image)), formats=["PNG"]) as opened:
        assert opened.mode == ("L" if channels == 1 else "RGB")
        assert np.array_equal(np.array(opened).reshape(height, width, channels), image.permute(1, 2, 0).numpy())


def test_without_the_quick_packer_zlib_packs_the_same_pixels(monkeypatch):
    image, packed = noise(3, 9, 12), []
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    spec = importlib.util.spec_from_file_location("pictures_without", pictures.__file__)
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    for way in (pictures, without):
        packed.append(way.to_png(image))
        with Image.open(BytesIO(packed[-1]), formats=["PNG"]) as opened:
            assert np.array_equal(np.array(opened), image.permute(1, 2, 0).numpy())
    assert without.quick_pack.__module__ == "pictures_without"


@pytest.mark.parametrize("channels", [1, 3])
def test_there_and_back(channels, tmp_path):
    image = noise(channels, 9, 12)
    name = f"{digest_of(image)}.png"
    (tmp_path / name).write_bytes(to_png(image))
    assert torch.equal(read_png(tmp_path, name, Shape(channels, 9, 12)), image)


def test_files_of_earlier_versions_are_read(tmp_path):
    image = noise(3, 9, 12)
    name = f"{digest_of(image)}.png"
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / name)  # Pillow chose each row's filter
    assert torch.equal(read_png(tmp_path, name, Shape(3, 9, 12)), image)


def test_one_wrong_byte_is_noticed(tmp_path):
    image = noise(3, 9, 12)
    name, data = f"{digest_of(image)}.png", bytearray(to_png(image))
    data[len(data) // 2] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DamagedModel, match="restore it from a copy"):
        read_png(tmp_path, name, Shape(3, 9, 12))


def test_a_smooth_picture_takes_less_room_than_its_pixels():
    slope = (torch.arange(64)[:, None] + torch.arange(64)).to(torch.uint8).expand(3, 64, 64)
    assert len(to_png(slope)) < slope.numel() / 20
