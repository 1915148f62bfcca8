"""Documents as a reader goes through them: every piece of Python, every line of shell, in order, in a new folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scail.cli.main import main

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?[^\n]*\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_ADDRESS = "127.0.0.1:8000"
_PROGRAMS = {
    "scail": f'exec "{sys.executable}" -m scail "$@"',
    "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"',
}
_SLURM = {  # for one machine: the tasks of a step begin together, and end it
    "srun": 'for task in $(seq "${SLURM_NTASKS:-1}"); do "$@" & started="$started $!"; done\n'
    "for one in $started; do wait $one || exit 1; done",
    "scontrol": "echo localhost",
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    kind: str
    file: str
    """Where a block has a title, it is a file of that name."""
    code: str


@dataclass(frozen=True)
class Scene:
    """What a page is carried out with."""

    stage: Callable[[], contextlib.AbstractContextManager[dict[str, Any] | None]] = contextlib.nullcontext
    """Puts into the folder what a reader has at the beginning. It may give names to the pieces of Python."""
    smaller: tuple[tuple[str, str], ...] = ()
    """What stands in the page, and what is carried out in its place: less data, fewer devices."""
    not_run: tuple[tuple[str, str], ...] = ()
    """How lines begin that are only read, and why."""
    apart: bool = False
    """Every command has a process of its own, since it starts others."""

    def why_not(self, line: str) -> str | None:
        """Why this line is not carried out."""
        return next((why for begin, why in self.not_run if line.startswith(begin)), None)


def fenced(page: str) -> list[Block]:
    """Every fenced block of a document, named from the root."""
    return [Block(*found) for found in _FENCE.findall((ROOT / page).read_text(encoding="utf-8"))]


def blocks(page: str) -> list[tuple[str, str]]:
    """Kind and content of each of them."""
    return [(block.kind, block.code) for block in fenced(page)]


def lines_of(code: str) -> list[str]:
    """The lines of shell: continued lines are joined, comments are left out."""
    return [line for line in code.replace("\\\n", " ").splitlines() if shlex.split(line, comments=True)]


def commands(code: str) -> list[list[str]]:
    """The words of each line of shell."""
    return [shlex.split(line, comments=True) for line in lines_of(code)]


def shown(page: str) -> list[str]:
    """The lines that a document shows as printed."""
    return [line for kind, text in blocks(page) if kind == "text" for line in text.splitlines()]


def walk(page: str, scene: Scene, place: Path) -> tuple[str, dict[str, Any]]:
    """Carry out every block of a page in this folder. Gives all that was printed, and the names of its Python."""
    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(place))
        stack.enter_context(contextlib.redirect_stdout(said))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", f"{_programs(place / '.bin', _PROGRAMS)}{os.pathsep}{os.environ['PATH']}")
        names = dict(stack.enter_context(scene.stage()) or {})
        reader = _Reader(scene, names, said, stack)
        for block in fenced(page):
            reader.carry_out(block)
    return said.getvalue(), names


def _programs(folder: Path, scripts: Mapping[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(stat.S_IRWXU)
    return folder


class _Reader:
    """Goes from block to block. Servers that were begun run until the end, and later blocks ask the first one."""

    def __init__(self, scene: Scene, names: dict[str, Any], said: io.StringIO, stack: contextlib.ExitStack) -> None:
        self._scene, self._names, self._said, self._stack = scene, names, said, stack
        self._address = _ADDRESS

    def carry_out(self, block: Block) -> None:
        code = block.code
        for old, new in self._scene.smaller:
            code = code.replace(old, new.replace("$PWD", str(Path.cwd())))
        if block.file:
            Path(block.file).write_text(code, encoding="utf-8")
        elif block.kind == "python":
            exec(code.replace(_ADDRESS, self._address), self._names)
        elif block.kind == "bash":
            Path("script.sh").write_text(code, encoding="utf-8")
            (nodes,) = re.findall(r"^#SBATCH --nodes=(\d+)", code, re.MULTILINE) or ["1"]
            slurm = _programs(Path(".slurm").absolute(), _SLURM)
            self._in_a_shell(f'PATH="{slurm}:$PATH" SLURM_NTASKS={nodes} bash -e script.sh')
        elif block.kind == "sh":
            for line in lines_of(code):
                if self._scene.why_not(line) is None:
                    self._line(line.replace(_ADDRESS, self._address))

    def _line(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        if words[:2] == ["scail", "serve"]:
            address = self._stack.enter_context(served(words))
            self._address = address if self._address == _ADDRESS else self._address
        elif words[0] == "scail" and not self._scene.apart:  # in this process, which has imported torch already
            with pytest.raises(SystemExit) as end:
                main(words[1:])
            assert end.value.code == 0, line
        else:
            jobs = re.findall(r'"id": ?"(\w+)"', self._said.getvalue())
            answer = self._in_a_shell(line.replace("jobs/ID", f"jobs/{jobs[-1]}") if jobs else line)
            if "jobs/ID" in line and re.search(r'"status": ?"(waiting|running)"', answer):
                self._line(line)  # as a reader does on a slow machine

    def _in_a_shell(self, line: str) -> str:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        print(done.stdout)
        return done.stdout


@contextlib.contextmanager
def served(words: list[str]) -> Iterator[str]:
    """It begins, prints its address, and answers; at a port that is free."""
    command = [sys.executable, "-m", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
            with urllib.request.urlopen(f"{address}/v1/classes", timeout=60) as answer:
                assert answer.status == 200
            yield address.removeprefix("http://")
        finally:
            server.terminate()
