"""Predictions through HTTP beside calling the classifier directly, with the same batches, in one run.

    python -m benchmarks.serving [MODEL] [ROUNDS]

Direct is a program that has the same pictures in memory as files, decodes them and calls `Answerer.answer`, on as many
threads as there are cores. HTTP is `scail serve` in a process of its own, asked by as many clients.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import httpx
import numpy as np
from PIL import Image

from scail import IncrementalClassifier
from scail.classifier.answering import Answerer, read_picture
from scail.runtime.cores import available_cores

ROUNDS, LEAST = 5, 32  # pictures in a round
SIDE, CLASSES = 320, 10


def pictures(count: int, seed: int) -> list[bytes]:
    """JPEG files of soft noise, as large as small photographs."""
    draw, found = np.random.RandomState(seed), []
    for _ in range(count):
        image = Image.fromarray(draw.randint(0, 256, (24, 32, 3)).astype(np.uint8)).resize((SIDE * 4 // 3, SIDE))
        file = io.BytesIO()
        image.save(file, "JPEG", quality=90)
        found.append(file.getvalue())
    return found


def taught(place: Path) -> Path:
    """A model of ten classes on the pretrained network, 224 pixels."""
    learned = [np.asarray(Image.open(io.BytesIO(data))) for data in pictures(4 * CLASSES, 0)]
    clf = IncrementalClassifier(backbone="pretrained", image_size=224, verbose=False)
    clf.learn(learned, [f"class {n % CLASSES}" for n in range(len(learned))]).save(place / "model")
    return place / "model"


def rate(work: Callable[[Sequence[bytes]], int], batches: Sequence[Sequence[bytes]], clients: int) -> float:
    """Pictures per second, of so many clients that each send one batch after the other."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        done = sum(pool.map(work, batches))
    return done / (time.perf_counter() - begun)


def main() -> None:
    """Measure, taking turns, and print a table. MODEL: a folder; else a model of ten classes is taught first."""
    cores, rounds = available_cores(), int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with tempfile.TemporaryDirectory() as place:
        model = Path(sys.argv[1]) if len(sys.argv) > 1 else taught(Path(place))
        answerer = Answerer.open(model, threads=1)
        command = [sys.executable, "-m", "scail", "serve", str(model), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        client = httpx.Client(base_url=address, timeout=120)
        waits = list[float]()

        def direct(batch: Sequence[bytes]) -> int:
            return len([answerer.answer(read_picture(data)) for data in batch])

        def http(batch: Sequence[bytes]) -> int:
            begun = time.perf_counter()
            files = [("images", ("a.jpg", data, "image/jpeg")) for data in batch]
            found = client.post("/v1/predict", files=files).json()["images"]
            waits.append(time.perf_counter() - begun)
            return sum("top" in one for one in found)

        try:
            while not client.get("/v1/classes").json()["top1"]:
                time.sleep(0.5)  # the tutor measures first
            print(f"{cores} cores, load of the machine {os.getloadavg()[0]:.1f}; {rounds} rounds taking turns, medians")
            print("pictures a request | direct, 1/s | HTTP, 1/s | HTTP / direct | p50, ms | p99, ms")
            for size in (1, 8, 32):
                batches = [pictures(size, 10 + n) for n in range(max(2, LEAST // size))]
                ratios, directs, https = list[float](), list[float](), list[float]()
                waits.clear()
                for _ in range(rounds):
                    directs.append(rate(direct, batches, cores))
                    https.append(rate(http, batches, cores))
                    ratios.append(https[-1] / directs[-1])
                slow = sorted(waits)
                print(
                    f"{size} | {median(directs):.1f} | {median(https):.1f} | {median(ratios):.2f} | "
                    f"{1000 * median(slow):.0f} | {1000 * slow[int(0.99 * len(slow))]:.0f}", flush=True,
                )  # fmt: skip
        finally:
            client.close()
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()
