"""Who may do what: tokens, origins, hosts, and the headers on every answer."""

from __future__ import annotations

import socket
import time

import pytest

from scail.server.guard import SECURITY
from scail.server.limits import Limits
from scail.server.settings import ServerSettings, is_loopback
from tests.server.serving import client_of, images

TOKEN = "a-token-for-tests"


def test_every_answer_has_the_headers(client):
    for path in ("/", "/docs", "/static/main.js", "/v1/classes", "/healthz", "/nothing", "/v1/jobs/x"):
        found = client.get(path)
        assert {name: found.headers[name] for name in SECURITY} == SECURITY
    policy = SECURITY["content-security-policy"]
    assert "unsafe" not in policy and "http" not in policy and "default-src 'none'" in policy


def test_nothing_of_the_page_comes_from_elsewhere(client):
    for path in ("/", "/docs"):
        page = client.get(path).text
        assert "http:" not in page and "https:" not in page and "<style" not in page and " style=" not in page
        for name in ("src", "href"):
            for part in page.split(f'{name}="')[1:]:
                place = part.partition('"')[0]
                assert place[0] in "/#" or place == "data:,"
                assert place[0] != "/" or client.get(place.partition("#")[0]).status_code == 200


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e%2fapp.py", "/static/app.py", "/static/..%5capp.py"]
)
def test_only_files_of_the_page_are_served(client, path):
    assert client.get(path).status_code == 404


def test_a_token_is_asked_for(model):
    with client_of(model, token=TOKEN) as client:
        assert client.get("/healthz").status_code == client.get("/").status_code == 200
        for path in ("/v1/classes", "/v1/jobs", "/v1/inbox", "/metrics", "/v1/exemplars?class=red"):
            refused = client.get(path)
            assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
        assert client.post("/v1/predict", files=images("red")).status_code == 401
        assert client.post("/v1/forget", json={"class": "red"}).status_code == 401
        for wrong in ("Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer tøken"):
            assert client.get("/v1/classes", headers={"authorization": wrong.encode()}).status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/v1/classes", headers=right).status_code == 200
        assert client.post("/v1/predict", files=images("red"), headers=right).status_code == 200


def test_the_page_signs_in_with_a_cookie_that_does_not_tell_the_token(model):
    with client_of(model, token=TOKEN) as client:
        assert client.post("/v1/sign-in", json={"token": "wrong"}).status_code == 401
        signed = client.post("/v1/sign-in", json={"token": TOKEN})
        cookie = signed.headers["set-cookie"]
        assert TOKEN not in cookie and "HttpOnly" in cookie and "SameSite=strict" in cookie
        assert client.get("/v1/classes").status_code == 200  # the client keeps its cookie
        client.cookies.clear()
        client.cookies.set("scail", TOKEN)
        assert client.get("/v1/classes").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "ftp://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"},  # a name of theirs that leads to our address
        {"host": "evil.example:8000", "origin": "http://evil.example:8000"},
    ],
)
def test_pages_of_others_change_nothing(client, headers):
    for path, body in (
        ("/v1/forget", {"class": "red"}),
        ("/v1/undo", {}),
        ("/v1/inbox/discard", {"images": ["0" * 32]}),
    ):
        assert client.post(path, json=body, headers=headers).status_code == 403
    assert client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize("length", ["9" * 5000, "²", "-1", "x"])
def test_a_length_that_is_none_is_refused(client, length):
    answer = client.post("/v1/undo", headers={"content-length": length.encode()})
    assert answer.status_code == 400 and "expected a number" in answer.json()["error"]


def test_its_own_page_may(client):
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.post("/v1/inbox/discard", json={"images": ["0" * 32]}, headers=own).json() == {"removed": 0}


def test_other_addresses_need_a_token(model):
    for host in ("0.0.0.0", "192.168.0.7", "::", "example.org"):
        assert not is_loopback(host)
        with pytest.raises(ValueError, match="needs a token"):
            ServerSettings(model, host=host)
        ServerSettings(model, host=host, token=TOKEN)


def test_who_sends_too_slowly_is_let_go(model):
    import threading

    import uvicorn

    from scail.server.app import make_app

    app = make_app(ServerSettings(model, limits=Limits(request_seconds=0.5)))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with socket.create_connection(listening.getsockname()) as slow:
            slow.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc")
            slow.settimeout(20)
            begun = time.monotonic()
            assert b" 408 " in slow.recv(1000) and time.monotonic() - begun < 15
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
