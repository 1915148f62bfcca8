"""The command line in processes of its own that begin in milliseconds.

One process imports everything once; the others are forked from it. They are as real as any: with memory, output and
signals of their own, and they can be killed. `subprocess` is for where the start of Python itself matters.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Self

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


def _scail(arguments: tuple[str, ...], environment: dict[str, str], session: bool, output: Connection) -> None:
    from scail.cli.main import main

    if session:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    output.close()
    sys.argv = ["scail", *arguments]
    main()


class Forked:
    """`scail` with these arguments, used like a `subprocess.Popen` whose errors go where its output goes."""

    def __init__(self, *arguments: str, start_new_session: bool = False) -> None:
        reader, writer = CONTEXT.Pipe(duplex=False)
        given = (arguments, dict(os.environ), start_new_session, writer)
        self._process = CONTEXT.Process(target=_scail, args=given)
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
        said = self.stdout.read()
        self._process.join()
        late.cancel()
        return said, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.join()
        self.stdout.close()
