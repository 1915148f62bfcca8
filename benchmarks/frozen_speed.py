"""What a frozen model costs beyond its network: features, whole lessons, and one more class among many.

`python -m benchmarks.frozen_speed calls` measures the calls alone and draws docs/images/calls.svg.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image

import scail.classifier.lesson
from scail.classifier.in_folder import learn_into
from scail.classifier.incremental_classifier import IncrementalClassifier
from scail.networks.onnx_features import kept_graph, onnx_features
from scail.networks.pretrained import PRETRAINED, start_network
from scail.runtime.allocation import keep_freed_memory
from scail.runtime.onnx_session import onnx_session

BATCH, SIDE = 16, 224
CLASSES, CALLS = (10, 1000, 10000), (10, 100, 1000)
PLOT = Path(__file__).parent.parent / "docs" / "images" / "calls.svg"


def features(images: int = 160, turns: int = 5) -> None:
    """Our features beside a bare loop over onnxruntime, in turns."""
    network = start_network("efficientnet-lite0", PRETRAINED, 3)
    pixels = torch.randint(0, 256, (images, 3, SIDE, SIDE), dtype=torch.uint8)
    onnx_features(network, pixels[:2])  # makes and keeps the graph
    session = onnx_session(kept_graph(network, SIDE, SIDE), torch.get_num_threads())

    def bare() -> None:
        for begin in range(0, images, BATCH):
            session.run(None, {"images": pixels[begin : begin + BATCH].numpy()})

    ratio = statistics.median(a / b for a, b in _in_turns([bare, lambda: onnx_features(network, pixels)], turns))
    print(f"features: {ratio:.2f} of the speed of bare onnxruntime")
    assert ratio >= 0.9


def lesson(images: int = 1000, turns: int = 3) -> None:
    """A first `learn` of photographs beside decoding and bare onnxruntime, in turns; with and without exemplars.

    Exemplars are written as PNG files, which the bare loop does not do: they are on top.
    """
    keep_freed_memory()
    network = start_network("efficientnet-lite0", PRETRAINED, 3)
    session = onnx_session(kept_graph(network, SIDE, SIDE), torch.get_num_threads())

    def read(path: Path) -> Any:
        with Image.open(path) as opened:
            side = min(opened.size)
            left, top = (opened.width - side) // 2, (opened.height - side) // 2
            middle = (left, top, left + side, top + side)
            small = opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=middle)
            return np.asarray(small).transpose(2, 0, 1)

    with tempfile.TemporaryDirectory() as place:
        paths = _photographs(Path(place), images)
        labels = [f"class {i % 20}" for i in range(images)]
        number = iter(range(100))

        def bare() -> None:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                pixels = threads.map(read, paths)
                for begin in range(0, images, BATCH):
                    batch = np.stack([next(pixels) for _ in range(min(BATCH, images - begin))])
                    session.run(None, {"images": batch})

        def learn(memory: int) -> None:
            learn_into(
                Path(place) / f"model-{next(number)}", paths, labels,
                lambda: IncrementalClassifier(memory, verbose=False, accelerator="cpu"), verbose=False,
            )  # fmt: skip

        learn(0)
        turned = list(_in_turns([bare, partial(learn, 0), partial(learn, 2000)], turns))
    print(f"{images} photographs, decoding and features alone: {statistics.median(t[0] for t in turned):.1f} s")
    for i, what in ((1, "no exemplars"), (2, "all kept as exemplars")):
        ratio = statistics.median(times[i] / times[0] for times in turned)
        print(f"learning them, {what}: {statistics.median(t[i] for t in turned):.1f} s, {ratio:.2f} times as long")
        assert i == 2 or ratio <= 1.15


def _in_turns(runs: Sequence[Callable[[], Any]], turns: int) -> Iterator[list[float]]:
    """Seconds of each, one after the other, several times."""
    for _ in range(turns):
        times = []
        for run in runs:
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
        yield times


def _photographs(place: Path, count: int) -> list[Path]:
    """JPEG files of 640 x 480 pixels: photographs of scikit-image, turned a little."""
    from skimage import data

    originals = [Image.fromarray(getattr(data, name)()) for name in ("astronaut", "coffee", "chelsea", "rocket")]
    paths = [place / f"{i}.jpg" for i in range(count)]
    for i, path in enumerate(paths):
        originals[i % 4].rotate(20 * i / count - 10).resize((640, 480)).save(path, quality=90)
    return paths


def calls(classes: int) -> dict[int, tuple[float, float, int]]:
    """Seconds, megabytes of memory and of disk of certain calls, each with ten images of one known class.

    The first call brings all classes. Images are small and made of noise: the network's part is the same in every call.
    """
    import resource

    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)

    def images(of: list[int], each: int) -> tuple[torch.Tensor, list[str]]:
        noise = torch.randint(0, 256, (len(of) * each, 3, 32, 32), generator=draw, dtype=torch.uint8)
        return noise, [str(c) for c in of for _ in range(each)]

    def make() -> IncrementalClassifier:
        return IncrementalClassifier(
            200, backbone="efficientnet-lite0@32", backbone_weights=PRETRAINED, verbose=False, accelerator="cpu"
        )

    found = dict[int, tuple[float, float, int]]()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "model"
        clf = learn_into(root, *images(list(range(classes)), 2), make, verbose=False)
        for call in range(2, CALLS[-1] + 1):
            part = images([call % classes], 10)
            if call not in CALLS:  # to come there sooner: in memory, without odds, which every call works out anew
                with mock.patch.object(scail.classifier.lesson, "calibrated", lambda model: model):
                    clf.learn(*part)
                continue
            clf.save(root)
            began = time.perf_counter()
            clf = learn_into(root, *part, make, verbose=False)
            took = time.perf_counter() - began
            size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
            found[call] = took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, size // 10**6
            print(json.dumps([classes, call, *found[call]]), flush=True)
    return found


def all_calls() -> None:
    """Every number of classes in a process of its own, so that memory is its own; then the plot."""
    rows = []
    for classes in CLASSES:
        command = [sys.executable, "-c", f"from benchmarks.frozen_speed import calls; calls({classes})"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    print(f"{'classes':>8} {'call':>5} {'seconds':>8} {'MB of memory':>13} {'MB on disk':>11}")
    for classes, call, took, memory, size in rows:
        print(f"{classes:8} {call:5} {took:8.2f} {memory:13.0f} {size:11}")
    _plot(rows)


def _plot(rows: list[list[float]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    for axes, column, what in zip(figure.subplots(1, 2), (2, 3), ("seconds", "MB of memory, at most"), strict=True):
        for classes in CLASSES:
            of = [row for row in rows if row[0] == classes]
            axes.plot([row[1] for row in of], [row[column] for row in of], "o-", label=f"{classes:,} classes")
        axes.set(xscale="log", yscale="log", xlabel="call", title=what)
    axes.legend(frameon=False)
    figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    if sys.argv[1:] == ["calls"]:
        all_calls()
    else:
        features()
        lesson()
