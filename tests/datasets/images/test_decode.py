"""What is taken for a picture: a few formats, in a list in one place; and values of every kind as they are meant."""

from __future__ import annotations

import ast
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from scail.classifier.answering import read_picture
from scail.datasets.images.decode import FORMATS, BrokenImage, middle_square, open_turned, read_region
from scail.server.limits import Limits
from scail.server.pictures import decoded

ROOT = Path(__file__).parents[3]
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"


@pytest.mark.parametrize("name", ["evil.jpg", "evil.png", "evil.eps"])
def test_postscript_starts_no_program_whatever_its_name(tmp_path, monkeypatch, name):
    def started(*_: object) -> None:
        raise SystemExit("Ghostscript was started")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", started)
    monkeypatch.setattr(EpsImagePlugin, "has_ghostscript", lambda: True)
    path = tmp_path / name
    path.write_bytes(POSTSCRIPT)
    for read in (read_picture, open_turned, lambda path: read_region(path, middle_square, 8)):
        with pytest.raises(ValueError, match="PostScript, which is a program"):
            read(path)
    with pytest.raises(BrokenImage, match="PostScript, which is a program"):
        read_region(POSTSCRIPT, middle_square, 8)
    with pytest.raises(Exception, match="cannot be read as an image; expected JPEG"):
        decoded(POSTSCRIPT, Limits())


def test_other_formats_of_pillow_are_no_pictures(tmp_path):
    for kind in ("TGA", "PCX", "SGI", "ICO"):
        Image.new("RGB", (8, 8)).save(tmp_path / "a.png", kind)
        with pytest.raises(BrokenImage, match=f"no picture; expected {FORMATS[0]}"):
            read_region(tmp_path / "a.png", middle_square, 8)


def test_nothing_is_opened_without_a_list_of_formats():
    """Pillow would try all that it knows."""
    texts = {path: path.read_text() for path in sorted((ROOT / "src").rglob("*.py"))}
    opening = {path: text for path, text in texts.items() if "Image" in text and ".open(" in text}
    assert len(opening) > 1
    for path, text in opening.items():
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("Image.open", "PIL.Image.open"):
                assert "formats" in {word.arg for word in call.keywords}, f"{path}, line {call.lineno}"


def test_pipes_are_not_waited_for_and_a_disk_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(BrokenImage, match=r"pipe\.png: cannot be read as an image \(not a plain file\)"):
        read_region(tmp_path / "pipe.png", middle_square, 8)
    (tmp_path / "large.png").touch()
    os.truncate(tmp_path / "large.png", 2**31)
    with pytest.raises(BrokenImage, match="2 GiB, expected at most 1 GiB"):
        read_region(tmp_path / "large.png", middle_square, 8)


def test_fractions_of_white_are_grey(tmp_path):
    pixels = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    Image.fromarray(pixels).save(tmp_path / "a.tiff")
    for found in (read_picture(tmp_path / "a.tiff"), np.asarray(open_turned(tmp_path / "a.tiff"))):
        assert np.array_equal(np.asarray(found)[..., 0].reshape(-1), np.arange(256))
    Image.fromarray(pixels * 300).save(tmp_path / "b.tiff")
    with pytest.raises(BrokenImage, match="fractions from 0 to 300, expected 0 to 1; save it with 8 or 16 bits"):
        read_region(tmp_path / "b.tiff", middle_square, 8)


def test_twelve_bits_in_sixteen_are_read_as_they_are_meant(tmp_path):
    Image.fromarray(np.full((8, 8), 65535, np.uint16)).save(tmp_path / "a.tiff")
    sixteen, twelve = (struct.pack("<HHII", 258, 3, 1, bits) for bits in (16, 12))  # the tag of how many bits
    data = (tmp_path / "a.tiff").read_bytes()
    assert sixteen in data
    (tmp_path / "a.tiff").write_bytes(data.replace(sixteen, twelve))
    assert (read_region(tmp_path / "a.tiff", middle_square, 8) == 255).all()
