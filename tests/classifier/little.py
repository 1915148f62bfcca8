"""Little images that can be told apart, and classifiers that learn them in a moment."""

from __future__ import annotations

import numpy as np

from scail import IncrementalClassifier


def little_images(*classes: str, each: int = 6, size: int = 8, seed: int = 0):
    """`each` grey images of every class and their labels: a bright spot, elsewhere for each class, and noise."""
    draw = np.random.RandomState(seed)
    images, labels = [], []
    for name in classes:
        place = np.random.RandomState(sum(map(ord, name))).randint(0, size - 3, 2)
        for _ in range(each):
            image = draw.randint(0, 60, (size, size))
            image[place[0] : place[0] + 3, place[1] : place[1] + 3] += 180
            images.append(image.astype(np.uint8))
            labels.append(name)
    return np.stack(images), labels


def little(**given) -> IncrementalClassifier:
    """A classifier with short trainings."""
    return IncrementalClassifier(
        **{"memory": 12, "epochs": 1, "mirror": False, "verbose": False, "accelerator": "cpu", **given}
    )
