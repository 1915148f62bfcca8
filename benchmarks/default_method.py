"""Which method a classifier that keeps learning should have: accuracy, not speed; so not part of `make bench`.

`SCAIL_DATA=... python -m benchmarks.default_method --calls 10 --seed 1`: 50 classes of CIFAR-100, 200 images each, in
so many calls of `learn` with a memory of 1 %. Measured after each call but the first, on images held out of the
training images: no test image helps to choose.
"""

from __future__ import annotations

import argparse
from statistics import mean

import torch

from scail.benchmark.configuration import settle
from scail.classifier.incremental_classifier import IncrementalClassifier
from scail.classifier.settings import heads_on
from scail.config.recipes import cifar100_cpu
from scail.evaluation import top_k_accuracy

NETWORK, CLASSES, MEMORY = "resnet8-half", 50, 100


def measure(method: str, calls: int, seed: int) -> dict[str, list[tuple[float, float]]]:
    """Top-5 and top-1 after each call but the first, of every head that this method's training has."""
    experiment = cifar100_cpu().but(classes=CLASSES, states=calls, tune=True, held_out=0.1, seed=seed)
    setup = settle(experiment)
    train, test = setup.dataset.train.images, setup.dataset.test.images
    clf = IncrementalClassifier(MEMORY, method, NETWORK, seed=seed, verbose=False)
    found: dict[str, list[tuple[float, float]]] = {}
    rows, labels = torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    for state in setup.states:
        names = [state.class_names[label - state.past_classes] for label in state.train_labels.tolist()]
        clf.learn(train[state.train_indices], names)
        rows, labels = torch.cat([rows, state.test_indices]), torch.cat([labels, state.test_labels])
        if state.index == 0:
            continue
        for head in heads_on(clf.model_.settings):
            scores = torch.from_numpy(clf.use(head).decision_function(test[rows]))
            found.setdefault(head, []).append((top_k_accuracy(scores, labels, 5), top_k_accuracy(scores, labels, 1)))
        clf.use(method)
        print(f"{method}: {len(clf.classes_)} classes", flush=True)
    return found


def main() -> None:
    """Print one line for each head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--methods", default="duet,ft_distill,bic", help="one for each training, with commas")
    given = parser.parse_args()
    for method in given.methods.split(","):
        for head, values in measure(method, given.calls, given.seed).items():
            top5, top1 = (mean(of) for of in zip(*values, strict=True))
            print(f"{given.calls} calls, seed {given.seed}: {head:12} top-5 {top5:5.1f}  top-1 {top1:5.1f}", flush=True)


if __name__ == "__main__":
    main()
