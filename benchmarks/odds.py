"""How far the odds of methods that train can be trusted: their calibration error on test images of CIFAR-100.

`python -m benchmarks.odds METHOD...`: ten classes, 50 images each, five calls, a memory of 100; without images held out
and with a fifth; three draws of the classes.
"""

from __future__ import annotations

import sys

import torch

from benchmarks.frozen import calibration_error, row
from scail.classifier.incremental_classifier import IncrementalClassifier
from scail.datasets import load_dataset
from scail.methods import METHODS
from scail.runtime.seeds import generator_for

CLASSES, CALLS, IMAGES, MEMORY, SEEDS = 10, 5, 50, 100, 3


def measured(method: str, validation: float, seed: int) -> list[float]:
    """Top-1 on test images, the mean of the highest odds, and the calibration error."""
    data = load_dataset("cifar100")
    classes = torch.randperm(100, generator=generator_for(seed, "odds"))[:CLASSES].tolist()
    clf = IncrementalClassifier(MEMORY, method=method, validation=validation, seed=seed, verbose=False)
    for call in range(CALLS):
        new = classes[call * CLASSES // CALLS : (call + 1) * CLASSES // CALLS]
        rows = torch.cat([(data.train.labels == c).nonzero().flatten()[:IMAGES] for c in new])
        clf.learn(data.train.images[rows], [data.class_names[c] for c in data.train.labels[rows].tolist()])
    rows = torch.cat([(data.test.labels == c).nonzero().flatten() for c in classes])
    odds = torch.as_tensor(clf.predict_proba(data.test.images[rows]))
    known = list(clf.classes_)
    labels = torch.tensor([known.index(data.class_names[c]) for c in data.test.labels[rows].tolist()])
    top1 = 100 * float((odds.argmax(1) == labels).double().mean())
    return [top1, 100 * float(odds.amax(1).mean()), calibration_error(odds, labels)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("| method | held out | test, top-1 | highest odds | calibration error |\n|---|---:|---:|---:|---:|")
    for method in sys.argv[1:] or ("scail", "icarl_duet", "bic", "ft"):
        for validation in (0.0, 0.2):
            found = [measured(method, validation, seed) for seed in range(SEEDS)]
            print(f"| {METHODS[method].label} | {validation:.0%} | {row(found)} |", flush=True)
