"""Time and disk of one learn call after another, into one folder: they grow with the classes, not with the calls.

First every call brings a new class; then every call brings more images of classes that are known.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch

from scail.classifier.folder import look
from scail.classifier.in_folder import learn_into
from scail.classifier.incremental_classifier import IncrementalClassifier
from scail.config.recipes import learning
from scail.datasets.sources.glyphs import load_glyphs

MEMORY, EACH = 200, 20


def main(new: int = 40, known: int = 60) -> None:
    """Measure, print, assert."""
    torch.set_num_threads(1)
    glyphs = load_glyphs(classes=new, train=2 * EACH)
    rows = [(glyphs.train.labels == c).nonzero().flatten() for c in range(new)]
    recipe = learning(EACH, 20, "resnet8")
    calls: list[tuple[int, float, int, int]] = []

    def make() -> IncrementalClassifier:
        return IncrementalClassifier(MEMORY, recipe=recipe, epochs=2, mirror=False, verbose=False, accelerator="cpu")

    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "model"
        for call in range(new + known):
            c = call % new
            part = rows[c][:EACH] if call < new else rows[c][EACH:]
            assert isinstance(glyphs.train.images, torch.Tensor)
            images, labels = glyphs.train.images[part], [glyphs.class_names[c]] * EACH
            began = time.perf_counter()
            clf = learn_into(root, images, labels, make, verbose=False)
            took = time.perf_counter() - began
            pictures = sum(1 for _ in root.rglob("*.png"))
            assert pictures <= MEMORY, "the memory overran its budget"
            calls.append((len(clf.classes_), took, look(root).size, pictures))
    print(f"{'call':>5} {'classes':>8} {'seconds':>8} {'kB':>8} {'pictures':>9}")
    for call in sorted({0, 1, new // 2, new - 1, new, new + known // 2, new + known - 1}):
        classes, took, size, pictures = calls[call]
        print(f"{call:5} {classes:8} {took:8.2f} {size / 1000:8.0f} {pictures:9}")
    early, late = calls[new : new + known // 3], calls[-(known // 3) :]
    seconds = [statistics.median(took for _, took, _, _ in part) for part in (early, late)]
    sizes = [max(size for _, _, size, _ in part) for part in (early, late)]
    print(
        f"known classes, first and last third of the calls: {seconds[0]:.2f} and {seconds[1]:.2f} s (median), ", end=""
    )
    print(f"{sizes[0] / 1000:.0f} and {sizes[1] / 1000:.0f} kB")
    assert sizes[1] < 1.1 * sizes[0], "the folder grows with the calls"


if __name__ == "__main__":
    main()
