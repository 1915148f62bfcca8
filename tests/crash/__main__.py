"""`make crash`: every command killed and failed at every operation on files. Prints a table, and what did not hold."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.crash.commands import COMMANDS
from tests.crash.system_calls import cannot_watch
from tests.crash.trial import KINDS, Count, count
from tests.forked import CONTEXT

_TITLES = {"kill": "killed", "power loss": "power lost", "ENOSPC": "disk full", "EIO": "disk broken"}


def main() -> None:
    """Carry it all out, and fail where anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--only", help="commands whose names have this in them")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this; may be given again")
    parser.add_argument("--most", type=int, default=50, help="tries of each command and kind, evenly spread")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if reason := cannot_watch():
        sys.exit(f"not done: {reason}")
    chosen = [n for n, one in enumerate(COMMANDS) if given.only is None or given.only in one.name]
    kinds = given.kind or list(KINDS)
    began, counts = time.monotonic(), dict[int, list[Count]]()
    with ProcessPoolExecutor(given.jobs, CONTEXT) as pool:
        begun = {pool.submit(count, n, kinds, given.most): n for n in reversed(chosen)}  # the long ones first
        for one in as_completed(begun):
            found = counts[begun[one]] = one.result()
            for told in (told for kind in found for told in kind.failures):
                print(f"FAILED {told}\n", flush=True)
            tries, failures = _sums(found)
            took = time.monotonic() - began
            print(f"{took:5.0f} s  {found[0].command}: {tries} tries, {failures} failures", flush=True)
    print(table([counts[n] for n in chosen]))
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(any(_sums(found)[1] for found in counts.values()))


def _sums(counts: list[Count]) -> tuple[int, int]:
    return sum(one.tries for one in counts), sum(len(one.failures) for one in counts)


def table(commands: list[list[Count]]) -> str:
    """A line for each command: operations, tries of each kind, failures."""
    lines = [["command", "operations", *(_TITLES[one.kind] for one in commands[0]), "tries", "failures"]]
    lines.append(["---", *["---:"] * (len(lines[0]) - 1)])
    for of in commands:
        numbers = (of[0].operations, *(one.tries for one in of), *_sums(of))
        lines.append([of[0].command, *map(str, numbers)])
    sums = [sum(int(line[i]) for line in lines[2:]) for i in range(1, len(lines[0]))]
    lines.append(["together", *map(str, sums)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
