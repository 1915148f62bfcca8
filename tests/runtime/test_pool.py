"""A script that starts processes, as a newcomer writes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import scail

_WORK = """
from scail.runtime.pool import map_in_order
print("begins")
{guard}
    print(sum(map_in_order(abs, [-1, -2, 3], 2)))
"""


@pytest.mark.parametrize("guard", ["if True:", 'if __name__ == "__main__":'])
def test_a_script_runs_once_with_or_without_a_guard(guard, tmp_path):
    (tmp_path / "mine.py").write_text(_WORK.format(guard=guard))
    around = {**os.environ, "PYTHONPATH": str(Path(scail.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=around, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "6"
    assert "Traceback" not in done.stderr
    if guard == "if True:":
        assert done.stdout.count("begins") == 1


def test_a_script_may_come_from_standard_input(tmp_path):
    around = {**os.environ, "PYTHONPATH": str(Path(scail.__file__).parents[1])}
    words, text = [sys.executable, "-"], _WORK.format(guard="if True:")
    done = subprocess.run(words, cwd=tmp_path, env=around, input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["begins", "6"]), done.stderr
