"""Grids on Ray: the real command, with a worker that is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from scail.benchmark.cluster import Cluster, _check_room, _listen
from scail.benchmark.workers import Update
from scail.cli.main import main

WITH_RAY = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: extra `ray`")
GRID = """
dataset: digits
classes: 6
images-per-class: 20
epochs: 40,4
states: 3
memory: [12, 6]
methods: ft,scail,full
select: random
"""


def places(place: Path) -> list[str]:
    return ["--out", str(place / "out"), "--store", str(place / "store")]


def rows(place: Path) -> dict[str, list[dict[str, object]]]:
    found = {}
    for path in sorted((place / "out").glob("*/results.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.parent.name] = [{k: v for k, v in row.items() if k != "trained_epochs"} for row in lines]
    return found


def tensors(place: Path) -> dict[str, bytes]:
    return {f.parent.name: f.read_bytes() for f in (place / "store" / "states").glob("*/tensors.safetensors")}


def workers(title: str) -> list[int]:
    """Ray's processes at a task of this title."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text().startswith("ray::scail") and title in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue  # ended meanwhile
    return found


@WITH_RAY
@pytest.mark.soak
def test_ray_gives_the_same_results_as_processes_here_even_where_a_worker_is_killed(tmp_path, capsys):
    seed = random.randrange(10_000, 10**9)  # so that no other Ray on this machine has such a task
    (tmp_path / "grid.yaml").write_text(f"{GRID}seed: {seed}\n")
    short = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets need a short path
    command = [sys.executable, "-m", "scail", "grid", str(tmp_path / "grid.yaml"), "--engine", "ray", "--jobs", "2"]
    try:
        with subprocess.Popen(
            [*command, *places(tmp_path / "ray")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            bufsize=1, env=os.environ | {"RAY_TMPDIR": short},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if "FT, random exemplars: state 0: training" in line:
                    break
            time.sleep(0.2)
            (victim,) = workers(f"b12-seed{seed}: FT, random")
            os.kill(victim, signal.SIGKILL)
            said += process.communicate(timeout=900)[0]
    finally:
        shutil.rmtree(short, ignore_errors=True)
    assert process.returncode == 0, said
    assert "dashboard: http://" in said and "2 CPUs" in said
    # Tried again: it went on from what was there.
    begun = [f"b12-seed{seed}: FT, random exemplars: state 0: {note}" for note in ("training", "from the store")]
    assert sum(map(said.count, begun)) == 2
    # The other configuration began when this state 0 was in the store.
    assert said.count(f"b6-seed{seed}: FT, random exemplars: state 0: from the store") == 1
    assert "Traceback" not in said

    with pytest.raises(SystemExit) as end:
        main(["grid", str(tmp_path / "grid.yaml"), "--engine", "local", "--jobs", "1", *places(tmp_path / "local")])
    assert not end.value.code
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    assert tensors(tmp_path / "ray") == tensors(tmp_path / "local")


class Script:
    """Tasks that send what a script says: no Ray."""

    def __init__(self, *turns: list[Update]) -> None:
        self.turns, self.started = list(turns), list[int]()

    def start(self, number: int) -> None:
        self.started.append(number)

    def check(self) -> None:
        pass

    def news(self) -> list[Update]:
        return self.turns.pop(0)


def test_what_a_second_try_sends_again_is_passed_on_once_and_the_rest_begins_when_state_0_is_there():
    measured = SimpleNamespace(rows=[])
    trajectories = [SimpleNamespace(keys=(key,)) for key in "aab"]
    first = Update(0, 0, measured=measured)
    tasks = Script(
        [Update(0, 0, note="training"), Update(2, 0, note="training")],
        [first, Update(0, 1, note="training")],
        [Update(0, 0, note="from the store"), first],  # its worker died, and it is tried again
        [Update(0, 1, measured=measured), Update(0, done=True), Update(1, done=True), Update(2, done=True)],
    )
    received: list[Update] = []
    _listen(trajectories, tasks, {"a": [1], "b": []}, received.append)
    assert tasks.started == [1]
    assert received.count(first) == 1
    assert [update.trajectory for update in received if update.done] == [0, 1, 2]


def test_a_training_that_fits_nowhere_is_an_error_and_not_a_wait():
    with pytest.raises(ValueError, match=r"takes 1 GPUs and 1 CPUs, and no machine .* has them \(at most 0 GPUs"):
        _check_room(Cluster(gpus_per_training=1), 1, [{"CPU": 2.0}])
    with pytest.raises(ValueError, match=r"takes 0 GPUs and 4 CPUs, and no machine .* and 2 CPUs\)"):
        _check_room(Cluster(), 4, [{"CPU": 2.0}, {"CPU": 2.0}])  # together they would have them
    with pytest.raises(ValueError, match="no machine"):
        _check_room(Cluster(gpus_per_training=1), 2, [{"CPU": 2.0}, {"CPU": 1.0, "GPU": 1.0}])
    _check_room(Cluster(gpus_per_training=0.5), 1, [{"CPU": 1.0}, {"CPU": 2.0, "GPU": 1.0}])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--engine", "ray", "--gpus-per-training", "-1"), "gpus per training is -1"),
        (("--address", "auto"), "--address and --gpus-per-training are for --engine ray"),
        (("--gpus-per-training", "1"), "--address and --gpus-per-training are for --engine ray"),
    ],
)
def test_bad_input_is_a_clear_error(tmp_path, capsys, options, expected):
    (tmp_path / "grid.yaml").write_text(GRID)
    with pytest.raises(SystemExit) as end:
        main(["grid", str(tmp_path / "grid.yaml"), *options, *places(tmp_path)])
    assert end.value.code == 2 and expected in capsys.readouterr().err
    assert not (tmp_path / "store" / "states").exists() or not list((tmp_path / "store" / "states").iterdir())


def test_without_ray_the_message_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "grid.yaml").write_text(GRID)
    with pytest.raises(SystemExit) as end:
        main(["grid", str(tmp_path / "grid.yaml"), "--engine", "ray", *places(tmp_path)])
    assert end.value.code == 2 and "pip install 'scail[ray]'" in capsys.readouterr().err


def test_a_grid_trains_each_network_on_one_device(tmp_path, capsys, monkeypatch):
    (tmp_path / "grid.yaml").write_text(GRID + "devices: 2\n")
    with pytest.raises(SystemExit) as end:
        main(["grid", str(tmp_path / "grid.yaml"), *places(tmp_path)])
    assert end.value.code == 2 and "devices belongs to `scail run`" in capsys.readouterr().err
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as end:
        main(["grid", "table1", *places(tmp_path)])
    assert end.value.code == 2 and "without torchrun" in capsys.readouterr().err
