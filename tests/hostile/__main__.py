"""`python -m tests.hostile`: many changed files for every reader, and what came of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.guided import GUIDED, guided, is_here
from tests.hostile.readers import READERS
from tests.hostile.trial import Tried, try_many


def main() -> None:
    """Try, and print a table in Markdown; the exit code is 1 where something failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=300, help="for all readers together")
    options.add_argument("--inputs", type=int, default=1_000_000, help="for each reader, at most")
    options.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    options.add_argument("readers", nargs="*", help=f"which: {', '.join((*READERS, *GUIDED))}")
    asked, failures = options.parse_args(), list[str]()
    names = asked.readers or [*READERS, *GUIDED]
    if not is_here() and not GUIDED.keys().isdisjoint(names):
        print("Atheris is not installed (`make fuzz` does, where there is one for the system): nothing is guided\n")
        names = [name for name in names if name not in GUIDED]
    print("| reader | tries | values | errors told | failures | slowest | memory |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in names:
        tried = _tried(name, range(asked.first, asked.first + asked.inputs), asked.seconds / len(names))
        failures += tried.failures
        more = f"{tried.slowest:.1f} s | {tried.memory / 2**20:.0f} MiB" if name in READERS else "– | –"
        told = f"{tried.inputs:,} | {tried.read:,} | {tried.refused:,} | {len(tried.failures)}"
        print(f"| {name} | {told} | {more} |", flush=True)
        for text in tried.failures[:20]:
            print(f"  {text}", file=sys.stderr, flush=True)
    sys.exit(bool(failures))


def _tried(name: str, seeds: range, seconds: float) -> Tried:
    with tempfile.TemporaryDirectory(prefix="scail-hostile-") as place:
        if name in GUIDED:
            return guided(name, Path(place), seconds)
        return try_many(READERS[name], Path(place), seeds, seconds)


if __name__ == "__main__":
    main()
