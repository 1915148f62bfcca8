"""Processes that begin in milliseconds, for the command line mostly.

One process imports everything once; the others are forked from it. They are as real as any: with memory, output and
signals of their own, and they can be killed. `subprocess` is for where the start of Python itself matters.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Self

from scail.cli.main import main

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("tests.classifier.little", "scail.benchmark.runner", "scail.classifier.in_folder", "scail.cli.run"),
        *(
            "filelock",
            "lightning_fabric",
            "matplotlib.figure",
            "rich.progress",
            "safetensors.torch",
            "sklearn.datasets",
        ),
    ]
)


def _begin(
    run: Callable[[], object],
    arguments: tuple[str, ...],
    environment: dict[str, str],
    session: bool,
    output: Connection,
) -> None:
    """What a new process would find as it begins."""
    if session:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in a background job it would be ignored
    os.environ.clear()
    os.environ.update(environment)
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    output.close()
    sys.argv = ["scail", *arguments]
    run()


class Forked:
    """`scail` with these arguments, or what `run` does; used like a Popen whose errors go where its output goes."""

    def __init__(
        self,
        *arguments: str,
        run: Callable[[], object] = main,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        reader, writer = CONTEXT.Pipe(duplex=False)
        given = (run, arguments, dict(os.environ if env is None else env), start_new_session, writer)
        self._process = CONTEXT.Process(target=_begin, args=given)
        self._process.start()
        writer.close()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.stdout = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        reader.close()

    @property
    def returncode(self) -> int | None:
        """As of a Popen: None while it runs, below 0 where a signal ended it."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """What it has yet to say; ends when it has ended. After so many seconds it is killed."""
        late = threading.Timer(timeout or threading.TIMEOUT_MAX, self.kill)
        late.daemon = True
        late.start()
        with self.stdout:
            said = self.stdout.read()
        self._process.join()
        late.cancel()
        return said, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.join()
        self.stdout.close()
