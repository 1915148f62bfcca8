"""A server in a process of its own: killed, loaded, left by its clients, ended."""

from __future__ import annotations

import signal
import socket
from statistics import median

import httpx
import pytest

from tests.server.load import under_load
from tests.server.serving import Served, encoded, eventually, images


@pytest.mark.soak
def test_killed_during_a_lesson(model):
    """After a restart the old model answers at once, and the lesson goes on."""
    with Served(str(model), "--port", "0") as server:
        response = httpx.post(f"{server.address}/v1/learn", data={"class": "dots"}, files=images(*["dots"] * 4))
        job = response.headers["location"]
        eventually(lambda: httpx.get(server.address + job).json()["status"] == "running")
        server.kill_all()
    with Served(str(model), "--port", "0") as server:
        found = httpx.post(f"{server.address}/v1/predict", content=encoded("red"), timeout=60).json()
        assert found["images"][0]["top"][0]["class"] == "red"
        done = httpx.get(server.address + job, params={"wait": 60}, timeout=90).json()
        assert done["status"] == "done"
        found = httpx.post(f"{server.address}/v1/predict", content=encoded("dots"), timeout=60).json()
        assert found["images"][0]["top"][0]["class"] == "dots"
        # A client that goes away in the middle of a request leaves nothing behind
        port = int(server.address.rpartition(":")[2])
        for sent in (b"", b"Content-Length: 100000\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"):
            with socket.create_connection(("127.0.0.1", port)) as gone:
                gone.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n" + sent)
        with httpx.stream("GET", server.address + job + "/events", timeout=60) as stream:
            next(stream.iter_text())
        load = under_load(server.address, server.process.pid, requests=120, clients=4)
        assert load.failures == [] and len(load.seconds) == 120
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) in (0, -signal.SIGTERM)
        assert server.process.stderr.read() == ""


@pytest.mark.soak
def test_ten_thousand_answers_while_it_learns_and_forgets(model):
    """Eight clients, no failure, flat memory."""
    with Served(str(model), "--port", "0") as server:
        load = under_load(server.address, server.process.pid, requests=10_000)
    print(f"p50 {1000 * load.share(0.5):.1f} ms, p99 {1000 * load.share(0.99):.1f} ms, {load.lessons} rounds")
    assert load.failures == [] and len(load.seconds) == 10_000 and load.lessons >= 2
    # While a model is replaced there are two of it, for a moment: so the middle of the last quarter counts.
    early, late = load.memory[len(load.memory) // 4], median(load.memory[-len(load.memory) // 4 :])
    assert late < 1.25 * early + 64 * 2**20


def test_an_address_that_is_taken_and_what_is_no_model(model, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        server = Served(str(model), "--port", port)
        assert server.address == "" and server.process.wait(60) == 2
        said = server.process.stderr.read()
        assert "choose another" in said and "Traceback" not in said
        server.__exit__()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    server = Served(str(tmp_path / "other"), "--port", "0")
    assert server.address == "" and "is not a scail model" in server.process.stderr.read()
    server.__exit__()
    assert not (tmp_path / "other.serve").exists()
