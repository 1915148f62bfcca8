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


def _model_and_image(place: Path) -> tuple[str, str]:
    """A model of ten classes, and a picture to classify."""
    from PIL import Image
    from torch import Tensor

    from scail.classifier.incremental_classifier import IncrementalClassifier
    from scail.datasets.sources.digits import load_digits

    digits = load_digits()
    labels = [digits.class_names[c] for c in digits.train.labels.tolist()]
    clf = IncrementalClassifier(100, epochs=1, verbose=False).learn(digits.train.images, labels)
    clf.save(place / "model")
    assert isinstance(digits.test.images, Tensor)
    Image.fromarray(digits.test.images[0, 0].numpy()).save(place / "digit.png")
    return str(place / "model"), str(place / "digit.png")


if __name__ == "__main__":
    main()
