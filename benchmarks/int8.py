"""Frozen features in whole numbers of 8 bits, by onnxruntime: how much faster, and what it costs in accuracy.

`SCAIL_DATA=... python -m benchmarks.int8`: EfficientNet-Lite0 at 224 pixels, quantised once, with the first images of
the first ten classes to tell how large its values are. All 100 classes of CIFAR-100, 20 images each, `slda` and `ncm`;
three draws that share no image; the same images in 32 bits. Features are kept in the cache, so that it can go on.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from benchmarks.frozen import evidence_of, row
from scail.config.recipes import PRETRAINED_NETWORK
from scail.datasets import load_dataset
from scail.evaluation import top_k_accuracy
from scail.heads import Moments
from scail.methods import METHODS
from scail.networks.int8 import MOST_TOLD, quantised
from scail.networks.onnx_features import kept_graph
from scail.networks.pretrained import PRETRAINED, start_network
from scail.runtime.onnx_session import onnx_session
from scail.storage.cache import cached_tensors

EACH, TEST, DRAWS, BATCH = 20, 50, 3, 8
FIRST = 10
"""Classes of the first lesson, whose images calibrate."""
WAYS = ("32 bits", "int8")


def features_of(session: Any, images: Tensor) -> Tensor:
    """N x D features."""
    return torch.cat([torch.from_numpy(session.run(None, {"images": b.numpy()})[0]) for b in images.split(BATCH)])


def compared(sessions: Sequence[Any], images: Tensor, turns: int = 15) -> str:
    """How many times as fast the second is, the two taking turns."""
    times: list[list[float]] = [[], []]
    for _ in range(turns):
        for of, session in zip(times, sessions, strict=True):
            began = time.perf_counter()
            features_of(session, images)
            of.append(time.perf_counter() - began)
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    each = ", ".join(
        f"{way} {1000 * statistics.median(of) / len(images):.1f}" for way, of in zip(WAYS, times, strict=True)
    )
    return f"ms an image on one thread: {each}; {ratio:.2f} times as fast"


def main() -> None:
    """Print speed, then accuracy."""
    torch.set_num_threads(1)
    data = load_dataset("cifar100")
    network = start_network(PRETRAINED_NETWORK, PRETRAINED, 3)
    graph = kept_graph(network, *data.train.images.shape[2:])

    def images_of(split: Any, begin: int, count: int, classes: int = 100) -> tuple[Tensor, Tensor]:
        rows = [(split.labels == c).nonzero().flatten()[begin : begin + count] for c in range(classes)]
        chosen = torch.cat(rows)
        return split.images[chosen], split.labels[chosen]

    first, _ = images_of(data.train, 0, EACH, FIRST)
    narrow = quantised(graph, first[:: max(1, len(first) // MOST_TOLD)])
    assert narrow is not None
    sessions = dict(zip(WAYS, (onnx_session(one, 1) for one in (graph, narrow)), strict=True))
    print(f"graph: {len(graph) / 1e6:.1f} MB, int8 {len(narrow) / 1e6:.1f} MB")
    print(compared([*sessions.values()], first[:16]), flush=True)
    if "--speed" in sys.argv:
        return
    found = dict[str, list[list[float]]]()
    for (way, session), own in zip(sessions.items(), (graph, narrow), strict=True):

        def features(name: str, images: Tensor, digest: str = sha256(own).hexdigest()[:16], s: Any = session) -> Tensor:
            make = partial(lambda s, x: {"features": features_of(s, x)}, s, images)
            return cached_tensors(f"benchmark-int8-{name}-{digest}", make)["features"]

        test_images, test_labels = images_of(data.test, 0, TEST)
        test = features("test", test_images)
        for draw in range(DRAWS):
            images, labels = images_of(data.train, draw * EACH, EACH)
            train = features(f"draw-{draw}", images)
            evidence = evidence_of(Moments.of(train, labels, 100), train, labels)
            for method in ("slda", "ncm"):
                top1 = top_k_accuracy(METHODS[method].head(evidence).scores(test), test_labels, 1)
                found.setdefault(f"{METHODS[method].label}, {way}", []).append([top1])
                print(f"{method}, {way}, draw {draw}: {top1:.2f}", flush=True)
    for title, values in found.items():
        print(f"| {title} | {row(values)} |")


if __name__ == "__main__":
    main()
