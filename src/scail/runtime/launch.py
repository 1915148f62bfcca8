"""Starts the ranks of a run on this machine and watches over them: where one ends, none is left waiting."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

_GRACE = 10.0  # seconds that the other ranks have to say why they end, before they are ended


def started_ranks() -> tuple[int, int] | None:
    """(rank, number of ranks) where torchrun, or `launch`, has started this process; else None."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    texts = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    numbers = [int(text) if text and text.isascii() and text.isdecimal() else -1 for text in texts.values()]
    if not 0 <= numbers[0] < numbers[1]:
        said = ", ".join(f"{name} is {text!r}" for name, text in texts.items())
        raise ValueError(
            f"TORCHELASTIC_RUN_ID is set, as in a process that torchrun has started, but {said}: expected a rank and "
            "the number of ranks. Start with torchrun, or unset TORCHELASTIC_RUN_ID"
        )
    return numbers[0], numbers[1]


def launch(function: Callable[..., None], argument: object, devices: int, nodes: int) -> int:
    """Run function(local rank, argument, surroundings) in `devices` processes; gives the exit code of all.

    Several nodes run the same command each, with MASTER_ADDR, MASTER_PORT and NODE_RANK set; torchrun does the same.
    """
    from torch.multiprocessing.spawn import spawn

    from scail.runtime.pool import STOPPING, signals_held

    around = _surroundings(devices, nodes)
    stopping = 0

    def forward(*_: object) -> None:
        nonlocal stopping
        stopping += 1
        for process in running.processes:
            # Once: they save and end. A second Ctrl-C: at once.
            if process.is_alive():
                os.kill(process.pid, signal.SIGTERM if stopping == 1 else signal.SIGKILL)

    # Until a rank is ready to handle them, and so that none is started that would not be told.
    with signals_held(STOPPING):
        running = spawn(function, (argument, around), devices, join=False)
        before = {number: signal.signal(number, forward) for number in STOPPING}
    try:
        return _watch(running, int(around["GROUP_RANK"]) * devices)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(running: Any, first: int) -> int:
    from torch.multiprocessing.spawn import ProcessExitedException

    try:
        while not running.join(timeout=0.5, grace_period=_GRACE):
            pass
    except ProcessExitedException as end:
        if end.exit_code < 0 and end.signal_name != "SIGTERM":
            raise ValueError(
                f"rank {first + end.error_index} (process {end.error_pid}) was killed by {end.signal_name} (out of "
                "memory?), and the others were ended. Nothing is lost: the same command goes on"
            ) from None
        return 130 if end.exit_code < 0 else end.exit_code  # it has said why
    return 0


def _surroundings(devices: int, nodes: int) -> dict[str, str]:
    """What torchrun would tell the ranks, but for the ranks themselves."""
    found = {name: os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")}
    if nodes > 1 and None in found.values():
        missing = ", ".join(name for name, value in found.items() if value is None)
        raise ValueError(
            f"--nodes {nodes}: set {missing}, the same command on every node (NODE_RANK 0, 1, ...), or use torchrun; "
            "see docs/how-to/several-devices.md"
        )
    node = found["NODE_RANK"] if nodes > 1 else "0"
    if node is None or not node.isdigit() or int(node) >= nodes:
        raise ValueError(f"NODE_RANK is {node!r}: expected 0 to {nodes - 1}")
    return {
        "TORCHELASTIC_RUN_ID": "scail",
        "MASTER_ADDR": str(found["MASTER_ADDR"]) if nodes > 1 else "127.0.0.1",
        "MASTER_PORT": str(found["MASTER_PORT"]) if nodes > 1 else _free_port(),
        "GROUP_RANK": node,
        "LOCAL_WORLD_SIZE": str(devices),
        "WORLD_SIZE": str(devices * nodes),
    }


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def become_rank(local: int, around: dict[str, str]) -> None:
    """Take the place of a rank: tell this process what torchrun would have told it."""
    from scail.runtime.pool import STOPPING

    devices, node = int(around["LOCAL_WORLD_SIZE"]), int(around["GROUP_RANK"])
    os.environ.update(around | {"LOCAL_RANK": str(local), "RANK": str(node * devices + local)})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
