"""How good frozen methods are with few images: accuracy, calibration, and telling the unknown; without forgetting.

`python -m benchmarks.frozen DATASET` (cifar100, glyphs, digits); three draws of the images. A second word names another
network or size, as efficientnet-lite0@128 or efficientnet-lite2@224. Nothing here is a training:
heads are computed from features that are taken once and kept in the cache.
"""

from __future__ import annotations

import sys
from statistics import mean, stdev

import torch
from torch import Tensor

from scail.classifier.left_out import KNOWN_SHARE, LeftOut, odds_left_out
from scail.config.recipes import PRETRAINED_NETWORK
from scail.datasets import load_dataset
from scail.evaluation import top_k_accuracy
from scail.heads import Evidence, Moments
from scail.heads.strangeness import Familiar, similar_left_out, strangeness_of
from scail.methods import METHODS
from scail.networks.network import Network
from scail.networks.onnx_features import features_digest, onnx_features
from scail.networks.pretrained import start_network
from scail.runtime.seeds import generator_for
from scail.storage.cache import cached_tensors
from scail.training.frozen_random import random_features

POOL, TEST, SEEDS = 200, 50, 3
"""Images of a class that are drawn from, test images of a class, draws."""


def features_of(name: str, network_name: str) -> tuple[dict[str, Tensor], Network]:
    """Features of a part of the data, and the network."""
    data = load_dataset(name)
    network = start_network(network_name, "pretrained", data.train.images.shape[1])

    def make() -> dict[str, Tensor]:
        found = {}
        for part, split, most in (("train", data.train, POOL), ("test", data.test, TEST)):
            rows = torch.cat([(split.labels == c).nonzero().flatten()[:most] for c in range(len(data.class_names))])
            found[f"{part}_features"] = onnx_features(network, split.images[rows])
            found[f"{part}_labels"] = split.labels[rows]
        return found

    return cached_tensors(f"benchmark-frozen-{name}-{features_digest(network)[:16]}-{POOL}-{TEST}", make), network


def evidence_of(moments: Moments, features: Tensor, labels: Tensor) -> Evidence:
    """What a head may see when all classes came at once. Heads that are made of moments see no more in ten states."""
    classes, none = len(moments.count_C), torch.zeros(0)
    zeros = torch.zeros(classes)
    return Evidence(
        zeros[:, None][:, :0], zeros, zeros[:, None][:, :0], zeros, torch.zeros(classes, dtype=torch.int64),
        moments.count_C, zeros, zeros, torch.zeros(1), features[:0], none.long(), features, labels, moments,
    )  # fmt: skip


def calibration_error(odds: Tensor, labels: Tensor, bins: int = 15) -> float:
    """The expected calibration error in percent."""
    sure, best = odds.max(1)
    right, error = (best == labels).double(), 0.0
    for number in range(bins):
        at = (sure > number / bins) & (sure <= (number + 1) / bins)
        if bool(at.any()):
            error += float(at.double().mean()) * abs(float(sure[at].mean() - right[at].mean()))
    return 100 * error


def area_under_curve(known: Tensor, unknown: Tensor) -> float:
    """AUROC in percent: how often an unknown image is stranger than a known one."""
    ranks = torch.cat([known, unknown]).argsort().argsort().double() + 1
    count = len(unknown)
    return 100 * float((ranks[len(known) :].sum() - count * (count + 1) / 2) / (len(known) * count))


def measured(method: str, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], classes: int) -> list[float]:
    """Top-1, by leave-one-out and on test images, and the calibration error."""
    moments, left_out = Moments.of(*train, classes), METHODS[method].left_out
    head = METHODS[method].head(evidence_of(moments, *train))
    scores = head.scores(test[0])
    top1 = top_k_accuracy(scores, test[1], 1)
    if left_out is None:
        return [float("nan"), top1, float("nan")]
    found = LeftOut(left_out(moments, *train), train[1])
    odds = odds_left_out(METHODS[method], moments, found)
    return [found.accuracy["top1"], top1, calibration_error(odds.of(scores.double()), test[1])]


def fetril_after(calls: int, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], classes: int) -> float:
    """Top-1 on test images after so many calls. What FeTrIL says depends on the classes of the last one."""
    new = train[1] >= classes - classes // calls
    evidence = evidence_of(Moments.of(*train, classes), train[0][new], train[1][new])
    return top_k_accuracy(METHODS["fetril"].head(evidence).scores(test[0]), test[1], 1)


def unknown(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], classes: int) -> list[float]:
    """Half of the classes are learned: AUROC of strangeness and of slda's highest odds, and shares called unknown."""
    half = classes // 2
    known = train[1] < half
    features, labels = train[0][known], train[1][known]
    moments, is_known = Moments.of(features, labels, half), test[1] < half
    measure = strangeness_of(moments, Familiar.of(similar_left_out(moments, features, labels), KNOWN_SHARE))
    strange = measure.measure(test[0])
    slda = METHODS["slda"]
    assert slda.left_out is not None
    odds = odds_left_out(slda, moments, LeftOut(slda.left_out(moments, features, labels), labels))
    unsure = -odds.of(slda.head(evidence_of(moments, features, labels)).scores(test[0]).double()).amax(1)
    areas = [area_under_curve(values[is_known], values[~is_known]) for values in (strange, unsure)]
    return [*areas, *(100 * float((strange[at] > 1).double().mean()) for at in (is_known, ~is_known))]


def row(values: list[list[float]]) -> str:
    """Means and standard deviations."""
    return " | ".join(
        "–" if of[0] != of[0] else f"{mean(of):.1f}±{stdev(of):.1f}" for of in map(list, zip(*values, strict=True))
    )


def main(name: str, network_name: str = PRETRAINED_NETWORK) -> None:
    """Print the tables."""
    torch.set_num_threads(1)
    kept, network = features_of(name, network_name)
    classes = int(kept["train_labels"].max()) + 1
    test = (kept["test_features"], kept["test_labels"])
    draw = generator_for(1, "projection")
    matrix = torch.randn(network.feature_size, random_features(network.feature_size), generator=draw)
    print(f"{name}: {classes} classes, {len(test[1])} test images, {network.name}, {SEEDS} draws")
    print("| images a class | method | left out, top-1 | test, top-1 | calibration error |\n|---:|---|---:|---:|---:|")
    found: dict[int, list[list[float]]] = {}
    for each in (5, 20, 100):
        draws = []
        for seed in range(SEEDS):
            order = torch.randperm(len(kept["train_labels"]), generator=generator_for(seed, "draw", name, each))
            rows = torch.cat([order[kept["train_labels"][order] == c][:each] for c in range(classes)])
            draws.append((kept["train_features"][rows], kept["train_labels"][rows]))
        found[each] = [unknown(train, test, classes) for train in draws]
        for method in ("ncm", "slda", "ridge", "ranpac"):
            values = []
            for features, labels in draws:
                if method != "ranpac":
                    values.append(measured(method, (features, labels), test, classes))
                elif each < 100:  # with 100 it is the slowest by far, and no better than ridge
                    projected = (torch.relu(features @ matrix), labels), (torch.relu(test[0] @ matrix), test[1])
                    values.append(measured(method, *projected, classes))
            if values:
                print(f"| {each} | {METHODS[method].label} | {row(values)} |", flush=True)
        for calls in (10, 50):
            values = [[float("nan"), fetril_after(calls, train, test, classes), float("nan")] for train in draws]
            print(f"| {each} | FeTrIL, {calls} calls | {row(values)} |", flush=True)
    print("\n| images a class | strangeness, AUROC | highest odds, AUROC | known called unknown | unknown called so |")
    print("|---:|---:|---:|---:|---:|")
    for each, values in found.items():
        print(f"| {each} | {row(values)} |")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["cifar100"])
