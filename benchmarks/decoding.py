"""Training batches from JPEG files: images/s against a plain Pillow loop, of a packed copy, and peak memory.

The pictures are 500 x 375 pixels, as large as ImageNet's usually are; regions are scaled to 224. All ways take turns,
several times. Memory: the peak of a fresh process that goes through 1,000 and through 20,000 files.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from scail.datasets import DataSettings, load_dataset
from scail.datasets.images.batches import Augmentation, random_region, training_batches
from scail.datasets.images.packed import pack
from scail.runtime.seeds import generator_for

PICTURES, REPEATS, SIZE = 400, 5, 224


def draw_pictures(place: Path, count: int, classes: int = 4) -> None:
    """Smooth shapes with fine texture: such a JPEG is about as long as a photograph's."""
    rng = np.random.default_rng(0)
    for n in range(count):
        layers = [
            np.asarray(
                Image.fromarray(rng.integers(0, 255, (375 // grain + 1, 500 // grain + 1, 3), dtype=np.uint8)).resize(
                    (500, 375), Image.Resampling.BICUBIC
                ),
                np.float32,
            )
            * share
            for grain, share in ((64, 0.5), (16, 0.25), (4, 0.15), (1, 0.1))
        ]
        folder = place / f"class{n % classes}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sum(layers).clip(0, 255).astype(np.uint8)).save(folder / f"{n:05}.jpg", quality=90)  # type: ignore[union-attr]


def plain_loop(paths: list[Path]) -> None:
    """What one would write first: open, convert, crop, resize, mirror, one image after the other."""
    draw = torch.Generator().manual_seed(0)
    batch = []
    for path in paths:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        box = random_region(*image.size, torch.rand(10, 4, generator=draw).tolist())
        image = image.crop(tuple(map(int, box))).resize((SIZE, SIZE), Image.Resampling.BILINEAR)  # type: ignore[arg-type]
        if torch.rand((), generator=draw) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        batch.append(torch.from_numpy(np.array(image)).permute(2, 0, 1))
        if len(batch) == 64:
            torch.stack(batch)
            batch = []


def one_epoch(place: Path, workers: int) -> Callable[[], None]:
    """All training images of this folder once, as `scail run` reads them."""
    dataset = load_dataset(str(place), DataSettings(image_size=SIZE, on_disk=True, workers=workers, held_out=0.01))

    def epoch() -> None:
        for _ in training_batches(
            dataset.train.images, dataset.train.labels, 64, Augmentation(), partial(generator_for, 1)
        ):
            pass

    return epoch


def peak_memory(place: Path) -> float:
    """MB, of a fresh process that goes through the folder once."""
    code = (
        "import resource, sys; from pathlib import Path; from benchmarks.decoding import one_epoch; "
        "one_epoch(Path(sys.argv[1]), 2)(); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(place)], capture_output=True, text=True, check=True)
    return float(ended.stdout.split()[-1])


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "pictures"
        draw_pictures(place, PICTURES)
        paths = sorted(place.rglob("*.jpg"))
        packed = Path(folder) / "packed"
        started = time.perf_counter()
        pack(load_dataset(str(place), DataSettings(on_disk=True, held_out=0.01)), packed, 256, 92)
        print(f"packing: {PICTURES / (time.perf_counter() - started):.0f} images/s, two workers")
        ways = {
            "plain Pillow loop": lambda: plain_loop(paths),
            "files, 1 worker": one_epoch(place, 1),
            "files, 2 workers": one_epoch(place, 2),
            "packed copy, 1 worker": one_epoch(packed, 1),
            "packed copy, 2 workers": one_epoch(packed, 2),
        }
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(REPEATS):
            for name, work in ways.items():
                started = time.perf_counter()
                work()
                speeds[name].append(PICTURES / (time.perf_counter() - started))
        bare = statistics.median(speeds["plain Pillow loop"])
        for name, runs in speeds.items():
            middle = statistics.median(runs)
            spread = f"(from {min(runs):.0f} to {max(runs):.0f})"
            print(f"{name:24} {middle:6.0f} images/s {spread}, {middle / bare:.2f} of the loop")
        for count in (1_000, 20_000):
            many = Path(folder) / f"many{count}"
            for n in range(count):  # links to the pictures: as many files, not as many bytes
                target = many / f"class{n % 4}" / f"{n:05}.jpg"
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(paths[n % len(paths)], target)
            print(f"{count:6} files: peak memory {peak_memory(many):.0f} MB")


if __name__ == "__main__":
    main()
