"""`make crash`: every command killed and failed at every operation on files. Prints a table, and what did not hold."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

from tests.crash.commands import COMMANDS
from tests.crash.system_calls import cannot_watch
from tests.crash.trial import KINDS, Count, Kind, count_and_tell, quick_place
from tests.forked import CONTEXT

_TITLES = {"kill": "killed", "power loss": "power lost", "ENOSPC": "disk full", "EIO": "disk broken"}
_OFTEN = 10.0  # seconds between two words on how it goes


def main() -> None:
    """Carry it all out, and fail where anything does. Stopped with Ctrl-C, it tells what came of it so far."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--only", help="commands whose names have this in them")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this; may be given again")
    parser.add_argument("--most", type=int, default=50, help="tries of each command and kind, evenly spread")
    parser.add_argument("--every", action="store_true", help="every operation, and every state of the disk")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    given = parser.parse_args()
    if reason := cannot_watch():
        sys.exit(f"not done: {reason}")
    chosen = [n for n, one in enumerate(COMMANDS) if given.only is None or given.only in one.name]
    most, kinds = None if given.every else given.most, given.kind or list(KINDS)
    began, counts, stopped = time.monotonic(), dict[int, list[Count]](), False
    try:
        for number in chosen:
            with tempfile.TemporaryDirectory(prefix="scail-crash-", dir=quick_place()) as place:
                counts[number] = _carried_out(number, kinds, most, given.jobs, place, began)
    except Stopped as stop:
        counts[number], stopped = stop.counts, True
    print(table([of for of in counts.values() if of]) if any(counts.values()) else "nothing was tried")
    print(f"{time.monotonic() - began:.0f} s{', stopped before the end' if stopped else ''}")
    sys.exit(stopped or any(_sums(found)[1] for found in counts.values()))


class Stopped(Exception):
    """By Ctrl-C: what came of the tries of a command until then."""

    def __init__(self, counts: list[Count]) -> None:
        super().__init__()
        self.counts = counts


def _carried_out(
    number: int, kinds: Sequence[Kind], most: int | None, jobs: int, place: str, began: float
) -> list[Count]:
    """All tries of a command, in a process of its own: what one command leaves behind there is no other's."""
    receive, send = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=count_and_tell, args=(number, kinds, most, jobs, place, send))
    process.start()
    send.close()
    found, shown, told = list[Count](), set[str](), 0.0
    try:
        for found in _received(receive):
            new = [text for one in found for text in one.failures if text not in shown]
            shown.update(new)
            for text in new:
                print(f"FAILED {text}\n", flush=True)
            if time.monotonic() - told > _OFTEN or new:
                told = time.monotonic()
                _say(found, began)
    except KeyboardInterrupt:
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError):  # it has not come so far
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        raise Stopped(found) from None
    process.join()
    if process.exitcode or not found:
        sys.exit(f"{COMMANDS[number].name}: its process has ended with {process.exitcode}")
    _say(found, began)
    return found


def _received(receive: Connection) -> Iterator[list[Count]]:
    try:
        while True:
            yield receive.recv()
    except EOFError:
        return


def _say(found: list[Count], began: float) -> None:
    tries, failures = _sums(found)
    planned, took = sum(one.planned for one in found), time.monotonic() - began
    print(f"{took:6.0f} s  {found[0].command}: {tries} of {planned} tries, {failures} failures", flush=True)


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
