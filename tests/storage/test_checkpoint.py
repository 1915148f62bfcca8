"""Unfinished trainings: the last save counts, whole, or none."""

from __future__ import annotations

import signal
import subprocess
import sys

import torch

from scail.storage.atomic import aside_name
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry


def entry(value: float) -> Entry:
    return Entry({"a": torch.full((2,), value), "b": torch.tensor(3)}, {"losses": [value], "batch": 7})


def test_what_was_saved_last_comes_back(tmp_path):
    checkpoint = Checkpoint(tmp_path / "k.safetensors")
    assert checkpoint.load() is None and checkpoint.stages() == []
    for value in (1.0, 2.0):
        checkpoint.save(entry(value))
    back = checkpoint.load()
    assert back is not None and back.facts == {"losses": [2.0], "batch": 7}
    assert torch.equal(back.tensors["a"], torch.full((2,), 2.0)) and back.tensors["b"].item() == 3


def test_stages_are_files_of_their_own(tmp_path):
    checkpoint = Checkpoint(tmp_path / "k.safetensors")
    checkpoint.stage("the training").save(entry(1.0))
    assert checkpoint.load() is None and checkpoint.stage("the training").load() is not None
    checkpoint.stage("balanced").path.write_bytes(b"no tensors")
    stages = checkpoint.stages()
    assert len(stages) == 2 and stages[0] is None and stages[1] is not None and stages[1].facts["losses"] == [1.0]


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
Checkpoint(Path(sys.argv[1])).save(Entry({"a": torch.zeros(2)}, {}))
"""


def test_killed_while_it_saves_the_save_before_counts(tmp_path):
    checkpoint = Checkpoint(tmp_path / "k.safetensors")
    checkpoint.save(entry(1.0))
    assert subprocess.run([sys.executable, "-c", KILLED, str(checkpoint.path)]).returncode == -signal.SIGKILL
    back = checkpoint.load()
    assert back is not None and back.facts["losses"] == [1.0]
    assert len(list(tmp_path.iterdir())) == 2
    checkpoint.remove()
    assert not list(tmp_path.iterdir())


def test_a_damaged_checkpoint_is_not_used(tmp_path):
    checkpoint = Checkpoint(tmp_path / "k.safetensors")
    checkpoint.save(entry(1.0))
    data = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert checkpoint.load() is None
    checkpoint.path.write_bytes(data[:50])
    assert checkpoint.load() is None


def test_a_checkpoint_takes_what_was_begun_of_it_along(tmp_path):
    checkpoint = Checkpoint(tmp_path / "0123.safetensors")
    checkpoint.stage("training").save(entry(1.0))
    (tmp_path / ".0123.training.safetensors.abc").write_bytes(b"killed while")  # as version 0.1 named it
    (tmp_path / ".4567.training.safetensors.abc").write_bytes(b"of another")
    aside_name(checkpoint.stage("training").path).write_bytes(b"killed while")
    other = aside_name(Checkpoint(tmp_path / "4567.safetensors").path)
    other.write_bytes(b"of another")
    checkpoint.remove()
    assert {path.name for path in tmp_path.iterdir()} == {".4567.training.safetensors.abc", other.name}
