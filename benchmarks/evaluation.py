"""Scoring fifteen heads on 50,000 test images of 1000 classes, against extracting the images' features.

Features: ResNet-18 at 224 pixels, extrapolated from 500 images (their decoding not counted). Scoring is what a run does
for each head: scores, top-1 and top-5, the six errors, origins of past errors, mean scores, confusion matrix.
"""

from __future__ import annotations

import time

import torch

from benchmarks.heads import CLASSES, FEATURES, all_heads, evidence_of
from scail import evaluation
from scail.networks.network import create_network, extract_features
from scail.runtime.seeds import generator_for

TEST_IMAGES, TRIED = 50_000, 500


def main() -> None:
    """Measure, print, assert."""
    torch.set_num_threads(1)
    network = create_network("resnet18", 3, CLASSES, generator_for(0, "network"))
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (TRIED, 3, 224, 224), dtype=torch.uint8, generator=draw)
    extract_features(network, images[:8])
    started = time.perf_counter()
    extract_features(network, images)
    extracting = (time.perf_counter() - started) * TEST_IMAGES / TRIED
    features = torch.randn(TEST_IMAGES, FEATURES, generator=draw).abs()
    labels = torch.arange(TEST_IMAGES) % CLASSES
    evidence = evidence_of()
    scoring = 0.0
    for name, rewrite in all_heads(evidence).items():
        started = time.perf_counter()
        head = rewrite()
        scores = head.scores(features)
        predicted = scores.argmax(1)
        for k in (1, 5):
            evaluation.top_k_accuracy(scores, labels, k)
        evaluation.error_counts(predicted, labels, evidence.past)
        evaluation.past_errors_by_origin(predicted, labels, evidence.first_state_C)
        evaluation.true_class_scores(head.linear_scores(features), labels, evidence.past)
        evaluation.confusion_matrix(predicted, labels, CLASSES)
        took = time.perf_counter() - started
        scoring += took
        print(f"{name:12} {took:6.2f} s", flush=True)
    share = scoring / extracting
    print(f"extracting {extracting:.0f} s (extrapolated), scoring all heads {scoring:.1f} s: {share:.1%} of it")
    assert share < 0.05, "scoring must take under 5 % of extracting the features"


if __name__ == "__main__":
    main()
