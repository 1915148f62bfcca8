"""docs/how-to/serve-and-deploy.md: its piece of Python teaches a server a class, and asks it."""

from __future__ import annotations

import contextlib

import httpx

from tests.docs.reading import blocks
from tests.server.serving import encoded


def test_the_client_in_python_learns_and_predicts(client, monkeypatch, tmp_path):
    ((_, code),) = (block for block in blocks("docs/how-to/serve-and-deploy.md") if block[0] == "python")
    for n in range(6):
        (tmp_path / f"{n}.png").write_bytes(encoded("dots", n))
    monkeypatch.setattr(httpx, "Client", lambda base_url, headers, timeout: client)
    names: dict = {}
    with contextlib.chdir(tmp_path):
        exec(code, names)
        assert names["learn"]("dots", *(f"{n}.png" for n in range(5)))["status"] == "done"
        (answer,) = names["predict"]("5.png")
    assert answer["top"][0]["class"] == "dots"
