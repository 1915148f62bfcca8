"""Pictures, models, and servers for tests."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from starlette.testclient import TestClient

from scail import IncrementalClassifier
from scail.server import tutor
from scail.server.app import make_app
from scail.server.desk import Desk, desk_of
from scail.server.settings import ServerSettings
from tests.forked import Forked

COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (40, 60, 200), "dots": (200, 100, 220)}


def picture(kind: str, seed: int = 0, size: int = 96) -> np.ndarray:
    """A noisy picture in a colour; dots have white squares."""
    draw = np.random.RandomState(1000 * seed + sum(map(ord, kind)))
    found = np.clip(np.array(COLOURS[kind]) + draw.normal(0, 25, (size, size, 3)), 0, 255)
    for y, x in draw.randint(5, size - 12, (12, 2)) if kind == "dots" else ():
        found[y : y + 9, x : x + 9] = 240
    return found.astype(np.uint8)


def encoded(kind: str, seed: int = 0, size: int = 96, kind_of_file: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture(kind, seed, size)).save(file, kind_of_file)
    return file.getvalue()


def images(*kinds: str, seed: int = 50) -> list[tuple[str, tuple[str, bytes]]]:
    """Files for a multipart request, one of each."""
    return [("images", (f"{kind}-{n}.png", encoded(kind, seed + n))) for n, kind in enumerate(kinds)]


def taught_model(place: Path, kinds=("red", "green", "blue"), each: int = 6) -> Path:
    """A folder with a model `m` and its desk."""
    pictures = [picture(kind, seed) for kind in kinds for seed in range(each)]
    clf = IncrementalClassifier(memory=60, image_size=128, backbone="pretrained", verbose=False, accelerator="cpu")
    clf.learn(pictures, [kind for kind in kinds for _ in range(each)]).save(place / "m")
    desk = Desk(desk_of(place / "m"))
    desk.make()
    tutor.measure(place / "m", desk)
    return place


@contextlib.contextmanager
def client_of(model: Path, **given):
    settings = ServerSettings(model, **given)
    with TestClient(make_app(settings), base_url="http://127.0.0.1:8000") as client:
        yield client


def after(client, response, timeout: float = 60) -> dict:
    """The job that a response speaks of, once it has ended."""
    assert response.status_code == 202, response.text
    job = client.get(response.headers["location"], params={"wait": timeout}).json()
    assert job["status"] in ("done", "failed"), job
    return job


def teach(client, name: str, kind: str, count: int = 5, seed: int = 100) -> dict:
    return after(client, client.post("/v1/learn", data={"class": name}, files=images(*[kind] * count, seed=seed)))


class ForkedTutor:
    """What `subprocess.Popen` is to the service."""

    def __init__(self, model: Path, desk: Path) -> None:
        run = partial(tutor.main, str(model.resolve()), str(desk.resolve()))
        self._forked = Forked(run=run)
        self.pid = self._forked.pid

    def poll(self) -> int | None:
        return self._forked.returncode

    def end(self) -> None:
        self._forked.kill()
        self._forked.communicate()


class Served:
    """`scail serve` in a process of its own; used in a `with`."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-m", "scail", "serve", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )  # fmt: skip
        self.address = self.process.stdout.readline().strip()

    def kill_all(self) -> None:
        """The server and its tutor, at once, as when the machine goes down."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        if not self.address:
            raise AssertionError(self.process.communicate()[1])
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(15)
        self.kill_all()
        self.process.stdout.close()
        self.process.stderr.close()


def eventually(check, timeout: float = 30.0):
    """What `check` gives, as soon as that is something."""
    until = time.monotonic() + timeout
    while not (found := check()):
        assert time.monotonic() < until, "this did not come in time"
        time.sleep(0.05)
    return found
