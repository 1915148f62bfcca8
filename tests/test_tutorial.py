"""The tutorial, as a reader would go through it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each block printed, in order; every one of them must succeed."""
    place = tmp_path_factory.mktemp("tutorial")
    # The very scail that is tested, under its name.
    (place / "bin").mkdir()
    (place / "bin" / "scail").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m scail "$@"\n')
    (place / "bin" / "scail").chmod(0o755)
    environment = os.environ | {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    (place / "work").mkdir()
    printed = []
    for kind, code in blocks(TUTORIAL.read_text(encoding="utf-8")):
        if kind == "text":
            continue
        command = {"sh": ["bash", "-ec", code], "python": [sys.executable, "-c", code]}[kind]
        done = subprocess.run(command, cwd=place / "work", env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout)
    return printed


def test_every_block_runs_and_the_model_learned_three_times(said):
    everything = "\n".join(said)
    assert "10 classes in 3 state(s), 3 call(s) of learn" in everything
    assert "state 2: digit 7, digit 8, digit 9" in everything
    assert "'digit 0' is forgotten" in everything
    assert "more images of 1 known class(es), digit 1: rehearsed" in everything


def test_it_learned_something(said):
    accuracies = [float(found) for found in re.findall(r"334 images: top-1 ([\d.]+) %", "\n".join(said))]
    assert len(accuracies) == 2 and min(accuracies) > 50  # one in ten by chance


def test_what_the_tutorial_shows_is_what_is_printed(said):
    """The lines shown are printed like that, but for times, which are the machine's."""
    printed = re.sub(r"about .*", "about", "\n".join(said))
    for kind, shown in blocks(TUTORIAL.read_text(encoding="utf-8")):
        if kind == "text":
            for line in re.sub(r"about .*", "about", shown).splitlines():
                assert line in printed
