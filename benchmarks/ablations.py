"""What biases, and the features that herding looks at, change on CIFAR-100: accuracy, not speed; not in `make bench`.

`SCAIL_DATA=... python -m benchmarks.ablations --seeds 1 2`: fine tuning in five states of ten classes, B = 1 %,
exemplars by herding, measured on images held out of the training images. Herding looks at features of unit length,
as everywhere else, and at features as they are; heads that have biases are measured with all of them at 0, too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean
from unittest.mock import patch

import torch
from torch import Tensor

from scail import heads, learner
from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.trajectory import trajectories_in
from scail.config.recipes import cifar100_cpu
from scail.evaluation import top_k_accuracy
from scail.heads import Evidence
from scail.networks.network import extract_features
from scail.runtime.devices import fabric_of
from scail.storage.store import Store

HEADS = (heads.ft, heads.ft_nem, heads.ft_l2, heads.ft_init, heads.ft_init_l2, heads.scail, heads.duet)
WITH_BIASES = (heads.ft, heads.ft_init, heads.scail)


def herding_of_features_as_they_are(features_ND: Tensor, count: int) -> Tensor:
    """`herding_order` without scaling to unit length: long features count for more."""
    features_ND = features_ND.double()
    mean_D, total_D, chosen = features_ND.mean(0), torch.zeros(features_ND.shape[1]).double(), list[int]()
    for t in range(1, count + 1):
        distance_N = (mean_D - (total_D + features_ND) / t).norm(dim=1)
        distance_N[chosen] = torch.inf
        chosen.append(int(distance_N.argmin()))
        total_D += features_ND[chosen[-1]]
    return torch.tensor(chosen, dtype=torch.int64)


def without_biases(evidence: Evidence) -> Evidence:
    """What a head would see of a layer that has none."""
    none_C = torch.zeros_like(evidence.bias_C)
    return replace(evidence, bias_C=none_C, initial_bias_C=none_C)


@contextmanager
def herding_by(features: str) -> Iterator[Store]:
    """Exemplars chosen by these features, in a store of its own: the keys of states know only of the usual ones."""
    with tempfile.TemporaryDirectory() as folder:
        if features == "unit length":
            yield Store(Path(folder))
        else:
            with patch.object(learner, "herding_order", herding_of_features_as_they_are):
                yield Store(Path(folder))


def measure(seed: int, store: Store) -> dict[str, tuple[float, float]]:
    """Top-5 and top-1 of each head, with and without biases, averaged over the incremental states."""
    asked = {"classes": 50, "states": 5, "memory": 100, "tune": True, "held_out": 0.1}
    experiment = cifar100_cpu().but(seed=seed, methods=("ft",), select=("herding",), **asked)
    (trajectory,) = trajectories_in(settle(experiment))
    dataset, machine = trajectory.configuration.dataset, trajectory.configuration.experiment.machine
    torch.set_num_threads(machine.threads)
    found: dict[str, list[tuple[float, float]]] = {}
    for step in steps_of(trajectory, store, fabric_of(machine), Watch()):
        seen = trajectory.states[: step.state.index + 1]
        labels = torch.cat([state.test_labels for state in seen])
        images = dataset.test.images[torch.cat([state.test_indices for state in seen])]
        features = extract_features(step.learned.network, images)
        plain = step.learned.evidence
        for head in HEADS if step.state.index else ():
            ways = {head.__name__: plain}
            if head in WITH_BIASES:
                ways[f"{head.__name__}, no biases"] = without_biases(plain)
            for title, evidence in ways.items():
                scores = head(evidence).scores(features)
                found.setdefault(title, []).append(
                    (top_k_accuracy(scores, labels, 5), top_k_accuracy(scores, labels, 1))
                )
    return {title: (mean(a for a, _ in of), mean(b for _, b in of)) for title, of in found.items()}


def main() -> None:
    """Print one line for each head and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    seeds = parser.parse_args().seeds
    for features in ("unit length", "as they are"):
        with herding_by(features) as store:
            of_seeds = [measure(seed, store) for seed in seeds]
        for title in of_seeds[0]:
            top5, top1 = (mean(of[title][i] for of in of_seeds) for i in (0, 1))
            each = " ".join(f"{of[title][0]:.1f}" for of in of_seeds)
            print(f"herding, features {features}: {title:24} top-5 {top5:5.1f} ({each})  top-1 {top1:5.1f}", flush=True)


if __name__ == "__main__":
    main()
