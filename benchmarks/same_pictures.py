"""`scail learn` on photographs as people have them, with one network or another: how good, and how long.

`SCAIL_DATA=... python -m benchmarks.same_pictures`: twenty classes of CIFAR-100, fifteen pictures each as PNG files,
four new classes at a time; then `scail evaluate` on 30 test pictures of each class. Another draw of classes by a number
behind it. Seconds are of the processor, over all five calls with the start of Python, on one thread.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image

from scail.datasets import load_dataset
from scail.runtime.seeds import generator_for

CLASSES, EACH, TEST, A_CALL = 20, 15, 30, 4
WAYS = {
    "efficientnet-lite0 (default)": (),
    "efficientnet-lite0, 128 pixels": ("--image-size", "128"),
    "efficientnet-lite1": ("--backbone", "efficientnet-lite1", "--backbone-weights", "pretrained"),
    "efficientnet-lite2": ("--backbone", "efficientnet-lite2", "--backbone-weights", "pretrained"),
}


def write_pictures(place: Path, seed: int) -> None:
    """Folders call-0, call-1, ... and test, each with a folder per class."""
    data = load_dataset("cifar100")
    chosen = torch.randperm(len(data.class_names), generator=generator_for(seed, "same pictures"))[:CLASSES].tolist()
    for n, c in enumerate(chosen):
        for folder, split, count in ((f"call-{n // A_CALL}", data.train, EACH), ("test", data.test, TEST)):
            assert isinstance(split.images, torch.Tensor)
            of_class = place / folder / data.class_names[c]
            of_class.mkdir(parents=True)
            for i, row in enumerate((split.labels == c).nonzero().flatten()[:count].tolist()):
                Image.fromarray(split.images[row].permute(1, 2, 0).numpy()).save(of_class / f"{i}.png")


def scail(*words: object) -> tuple[str, float]:
    """What a command says, and the seconds that its process took of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "scail", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(seed: int = 1) -> None:
    """Print a row for each network."""
    print(f"draw {seed}\n| network | top-1 | top-5 | seconds of the five calls |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_pictures(place, seed)
        for n, (name, options) in enumerate(WAYS.items()):
            model, took = place / f"model-{n}", 0.0
            for call in range(CLASSES // A_CALL):
                took += scail("learn", model, place / f"call-{call}", *(() if call else options))[1]
            found = json.loads(scail("evaluate", model, place / "test", "--json")[0])
            print(f"| {name} | {found['top1']:.1f} | {found['top5']:.1f} | {took:.0f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
