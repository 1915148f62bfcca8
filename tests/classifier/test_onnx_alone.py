"""The exported file, run by onnxruntime alone, says of PNG and JPEG files what `scail predict` says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image, ImageOps

from scail.networks.pretrained import has_pretrained
from tests.classifier.little import little_images
from tests.cli.test_learn import run

__all__ = ["run"]  # a fixture
MANY = 120


@pytest.mark.skipif(not has_pretrained("efficientnet-lite0"), reason="the weights of efficientnet-lite0 are missing")
def test_png_and_jpeg_files_by_onnxruntime_alone(run, tmp_path):
    import onnxruntime

    draw = np.random.default_rng(0)
    images, names = little_images("a", "b", "c", each=MANY // 3, size=40)
    places = []
    for i, (image, name) in enumerate(zip(images, names, strict=True)):
        height, width = (int(side) for side in draw.integers(30, 200, 2))
        colour = Image.fromarray(np.stack([image, image // 2, 255 - image], 2)).resize((width, height))
        part = tmp_path / ("learned" if i % 4 == 0 else "new") / name
        part.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[0x0112] = int(draw.integers(1, 9))
        places.append(part / f"{i}.{'jpg' if i % 2 else 'png'}")
        colour.save(places[-1], **({"exif": exif, "quality": 85} if i % 2 else {}))
    learned = ("--image-size", "64", "--memory", "6")
    assert run("learn", tmp_path / "m", tmp_path / "learned", *learned)[0] == 0
    assert run("export", tmp_path / "m", "--onnx", tmp_path / "m.onnx")[0] == 0
    lines = [
        json.loads(line)
        for line in run("predict", tmp_path / "m", tmp_path, "--top", "3", "--json")[1].split("\n")
        if line
    ]
    assert len(lines) == MANY + 6  # and the exemplars
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    told = session.get_modelmeta().custom_metadata_map
    classes, agree = json.loads(told["classes"]), 0
    for line in lines:
        picture = np.asarray(ImageOps.exif_transpose(Image.open(line["path"])).convert("RGB"))
        odds, strangeness = session.run(["odds", "strangeness"], {"picture": picture})
        expected = [next(best["probability"] for best in line["top"] if best["class"] == name) for name in classes]
        unknown = float(strangeness) > float(told["unknown"])
        agree += bool(np.abs(odds - expected).max() < 1e-3 and unknown == line["unknown"])
    assert agree >= 0.99 * len(lines)
    assert {line["top"][0]["class"] for line in lines} == {"a", "b", "c"}
