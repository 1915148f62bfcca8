"""Real processes that write, read, evict and sweep in one store, always at its limit, and are killed."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from scail.storage.entry import Entry
from scail.storage.inspection import inspected
from scail.storage.store import Store
from tests.forked import Forked

NAMES = "abcdef"
LIMIT = "12KB"


def large(name: str) -> Entry:
    """As training gives the same bits, one name always has the same numbers."""
    return Entry({"a": torch.full((500,), float(ord(name)))}, {"made_from": {"name": name}})


def work() -> None:
    place, seed = Path(sys.argv[1]), sys.argv[2]
    draw = random.Random(seed)
    while True:
        store = Store(place)
        made = large(draw.choice(NAMES))
        found = store.load(made.key)
        assert found is None or torch.equal(found.tensors["a"], made.tensors["a"])
        if found is None:
            with store.lock(made.key):
                checkpoint = store.checkpoint(made.key).stage("training")
                begun = checkpoint.load()
                assert begun is None or torch.equal(begun.tensors["a"], made.tensors["a"])
                checkpoint.save(made)
                assert checkpoint.load() is not None  # whoever makes room: this one lives
                store.save(made)
                store.checkpoint(made.key).remove()
        if draw.random() < 0.2:
            store.sweep(0)
        assert all(one.verdict == "sound" for one in inspected(store))


@pytest.mark.parametrize("seconds", [3.0, pytest.param(120.0, marks=pytest.mark.soak)])
def test_processes_that_write_evict_and_are_killed_never_read_what_was_not_written(store_dir, seconds):
    draw, kills = random.Random(1), 0
    environment = os.environ | {"SCAIL_STORE_LIMIT": LIMIT}

    def begin(number: int) -> Forked:
        return Forked(str(store_dir), str(number), run=work, env=environment)

    running, ended = [begin(number) for number in range(4)], time.monotonic() + seconds
    while time.monotonic() < ended:
        time.sleep(draw.uniform(0.02, 0.2))
        at = draw.randrange(len(running))
        running[at].kill()
        said, _ = running[at].communicate()
        assert running[at].returncode == -signal.SIGKILL, said
        kills += 1
        running[at] = begin(10 + kills)
    for process in running:
        process.kill()
        said, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL, said
    assert kills >= 4
    print(f"{kills} kills")
    store = Store(store_dir)
    store.sweep(0)
    left = store.held()
    assert {one.kind for one in left} <= {"state"} and all(one.verdict == "sound" for one in inspected(store))
    size = sum(one.size for one in left) // max(1, len(left))
    assert sum(one.size for one in left) <= 12_000 + 4 * size  # each may have been killed before it made room
