"""How long the command line takes to answer, and to classify one image."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = {
    "python, nothing imported": [sys.executable, "-c", ""],
    "scail --help": [sys.executable, "-m", "scail", "--help"],
    "scail run --help": [sys.executable, "-m", "scail", "run", "--help"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    """Measure, print, assert."""
    with tempfile.TemporaryDirectory() as place:
        model, image = _model_and_image(Path(place))
        ways = WAYS | {"scail predict, one image": [sys.executable, "-m", "scail", "predict", model, image]}
        runs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(7):
            for name, command in ways.items():
                started = time.perf_counter()
                subprocess.run(command, capture_output=True, check=True)
                runs[name].append(time.perf_counter() - started)
    for name, seconds in runs.items():
        print(f"{name:26} {statistics.median(seconds):5.2f} s (from {min(seconds):.2f} to {max(seconds):.2f})")
    assert statistics.median(runs["scail --help"]) < 0.5
    assert statistics.median(runs["scail predict, one image"]) < statistics.median(runs["import torch"]) / 2


def _model_and_image(place: Path) -> tuple[str, str]:
    """A model with EfficientNet-Lite0, and a picture to classify."""
    import numpy as np
    from PIL import Image

    from scail.classifier.incremental_classifier import IncrementalClassifier

    pictures = np.random.RandomState(0).randint(0, 256, (8, 224, 224, 3), dtype=np.uint8)
    clf = IncrementalClassifier(
        4, "deesil", "efficientnet-lite0", backbone_weights="pretrained", epochs=1, verbose=False
    )
    clf.learn(pictures, list("aaaabbbb")).save(place / "model")
    Image.fromarray(np.tile(pictures[0], (2, 3, 1))).save(place / "one.jpg")
    return str(place / "model"), str(place / "one.jpg")


if __name__ == "__main__":
    main()
