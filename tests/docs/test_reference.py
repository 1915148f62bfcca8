"""docs/reference/classifier.md: what it shows of the classifier in Python (with scikit-learn: tests/classifier)."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from PIL import Image

from scail.networks.pretrained import has_pretrained
from tests.docs.reading import blocks

COLOURS = {"cat": (200, 40, 40), "cow": (40, 180, 60), "dog": (40, 60, 200)}


@pytest.mark.soak
@pytest.mark.skipif(not has_pretrained("efficientnet-lite0"), reason="the pretrained weights are not installed")
def test_its_calls_do_what_they_say(tmp_path):
    code = next(code for kind, code in blocks("docs/reference/classifier.md") if kind == "python")
    draw = np.random.default_rng(0)
    labels, more_labels = ["cat", "cow"] * 4 + ["cow", "cat"], ["dog"] * 4 + ["cow"]
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()):
        for n, name in enumerate(labels + more_labels):
            pixels = np.array(COLOURS[name]) + draw.normal(0, 25, (48, 48, 3))
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(f"{n}.jpg")
        images, more_images = ([f"{n}.jpg" for n in range(*ends)] for ends in ((0, 10), (10, 15)))
        given = {"images": images, "labels": labels, "more_images": more_images, "more_labels": more_labels}
        exec(code.replace('backbone="auto"', 'backbone="auto", image_size=48'), given)
        assert (tmp_path / "model" / "manifest.json").is_file()
        found = given["clf"]
        assert found.classes_ == ("cow", "Canis familiaris")
        assert tuple(found.predict(["1.jpg", "12.jpg"])) == found.classes_
