"""How long the command line takes to answer."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

WAYS = {
    "python, nothing imported": [sys.executable, "-c", ""],
    "scail --help": [sys.executable, "-m", "scail", "--help"],
    "scail run --help": [sys.executable, "-m", "scail", "run", "--help"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    """Measure, print, assert."""
    runs: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(7):
        for name, command in WAYS.items():
            started = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            runs[name].append(time.perf_counter() - started)
    for name, seconds in runs.items():
        print(f"{name:26} {statistics.median(seconds):5.2f} s (from {min(seconds):.2f} to {max(seconds):.2f})")
    assert statistics.median(runs["scail --help"]) < 0.5


if __name__ == "__main__":
    main()
