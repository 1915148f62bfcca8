"""`python -m tests.hostile`: many changed files for every reader, and what came of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.readers import READERS
from tests.hostile.trial import try_many


def main() -> None:
    """Try, and print a table in Markdown; the exit code is 1 where something failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60, help="for each reader")
    options.add_argument("--inputs", type=int, default=1_000_000, help="for each reader, at most")
    options.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    options.add_argument("readers", nargs="*", default=[*READERS])
    asked, failures = options.parse_args(), list[str]()
    print("| reader | inputs | read | refused | failures | slowest | memory |\n|---|---:|---:|---:|---:|---:|---:|")
    for name in asked.readers or READERS:
        with tempfile.TemporaryDirectory(prefix="scail-hostile-") as place:
            seeds = range(asked.first, asked.first + asked.inputs)
            tried = try_many(READERS[name], Path(place), seeds, asked.seconds)
        failures += tried.failures
        print(
            f"| {name} | {tried.inputs:,} | {tried.read:,} | {tried.refused:,} | {len(tried.failures)} | "
            f"{tried.slowest:.1f} s | {tried.memory / 2**20:.0f} MiB |",
            flush=True,
        )
        for text in tried.failures[:20]:
            print(f"  {text}", file=sys.stderr, flush=True)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
