"""Photographs of CIFAR-100, learned on a frozen network: how good, how sure, and what is unknown."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from scail import IncrementalClassifier, load_dataset
from scail.networks.pretrained import has_pretrained
from tests.classifier.test_odds import calibration_error


def of_classes(split, classes, each):
    """So many images of each of these classes, and their labels."""
    rows = torch.cat([(split.labels == c).nonzero().flatten()[:each] for c in classes])
    return split.images[rows].permute(0, 2, 3, 1).numpy(), split.labels[rows].tolist()


@pytest.mark.soak
def test_twenty_images_of_each_of_twenty_classes():
    if not has_pretrained("efficientnet-lite0"):
        pytest.skip("the package with the weights of efficientnet-lite0 is not installed")
    try:
        data = load_dataset("cifar100")
    except (ValueError, OSError) as missing:
        pytest.skip(f"CIFAR-100 is not there: {missing}")
    # 96 pixels a side, for the time that it takes; the default is 224
    clf = IncrementalClassifier(
        0, "slda", "efficientnet-lite0@96", backbone_weights="pretrained", verbose=False, accelerator="cpu"
    )
    images, labels = of_classes(data.train, range(20), 20)
    for state in range(4):  # five classes at a time
        at = slice(100 * state, 100 * (state + 1))
        clf.learn(images[at], [str(c) for c in labels[at]])
    tested, truth = of_classes(data.test, range(20), 20)
    strangers, _ = of_classes(data.test, range(20, 60), 10)
    chances = torch.from_numpy(clf.predict_proba(tested)).double()
    top1 = 100 * clf.score(tested, [str(c) for c in truth])
    error = calibration_error(chances, torch.tensor([clf.classes_.index(str(c)) for c in truth]))
    known, unknown = clf.strangeness(tested), clf.strangeness(strangers)
    area = roc_auc_score(np.repeat([0, 1], [len(known), len(unknown)]), np.concatenate([known, unknown]))
    assert top1 > 60
    assert error <= 0.08
    assert area > 0.7
    assert (known > 1).mean() < 0.15
