"""`make crash`: every command killed and failed at every operation on files. Prints a table, and what did not hold."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.crash.commands import COMMANDS
from tests.crash.system_calls import cannot_watch
from tests.crash.trial import KINDS, Count, Kind, count
from tests.forked import CONTEXT

_TITLES = {"kill": "killed", "power loss": "power lost", "ENOSPC": "disk full", "EIO": "disk broken"}


def main() -> None:
    """Carry it all out, and fail where anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--only", help="commands whose names have this in them")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this; may be given again")
    parser.add_argument("--most", type=int, default=150, help="tries of each command and kind, evenly spread")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if reason := cannot_watch():
        sys.exit(f"not done: {reason}")
    chosen = [n for n, one in enumerate(COMMANDS) if given.only is None or given.only in one.name]
    kinds = given.kind or list(KINDS)
    began, counts = time.monotonic(), dict[tuple[int, Kind], Count]()
    with ProcessPoolExecutor(given.jobs, CONTEXT) as pool:
        begun = {pool.submit(count, n, kind, given.most): (n, kind) for n in chosen for kind in kinds}
        for one in as_completed(begun):
            found = counts[begun[one]] = one.result()
            for told in found.failures:
                print(f"FAILED {told}\n", flush=True)
            print(f"{time.monotonic() - began:5.0f} s  {found.command}, {found.kind}: {found.tries} tries, "
                  f"{len(found.failures)} failures", flush=True)  # fmt: skip
    print(table(counts, kinds))
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(any(one.failures for one in counts.values()))


def table(counts: dict[tuple[int, Kind], Count], kinds: list[Kind]) -> str:
    """A line for each command: operations, tries of each kind, failures."""
    lines = [["command", "operations", *(_TITLES[kind] for kind in kinds), "tries", "failures"]]
    lines.append(["---", *["---:"] * (len(lines[0]) - 1)])
    numbers = sorted({n for n, _ in counts})
    for n in numbers:
        of = [counts[n, kind] for kind in kinds]
        total = sum(one.tries for one in of), sum(len(one.failures) for one in of)
        lines.append([of[0].command, *map(str, (of[0].operations, *(one.tries for one in of), *total))])
    sums = [sum(int(line[i]) for line in lines[2:]) for i in range(1, len(lines[0]))]
    lines.append(["together", *map(str, sums)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
