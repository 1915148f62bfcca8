"""Answers: the same as the classifier's, one for each picture, an error for each that cannot be read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from scail.classifier.answering import Answerer, read_picture
from scail.server.limits import Limits
from tests.server.serving import client_of, encoded, images


def test_answers_are_those_of_the_model(client, model):
    found = client.post("/v1/predict", files=images("red", "green", "dots"), params={"top": 3, "nearest": 2})
    assert found.status_code == 200
    answerer = Answerer.open(model, threads=1)
    for (_, (name, data)), said in zip(images("red", "green", "dots"), found.json()["images"], strict=True):
        expected = answerer.answer(read_picture(data))
        assert said["name"] == name
        assert [one["class"] for one in said["top"]] == [answerer.classes[c] for c in expected.top(3)]
        np.testing.assert_allclose([one["probability"] for one in said["top"]], np.sort(expected.odds)[::-1], atol=1e-5)
        assert said["unknown"] == expected.unknown and said["strangeness"] == pytest.approx(expected.strangeness, 1e-3)
    red, _, dots = found.json()["images"]
    assert red["top"][0]["class"] == "red" and not red["unknown"] and dots["unknown"]
    assert [one["class"] for one in red["nearest"]] == ["red", "red"]
    assert client.get(f"/v1/exemplars/{red['nearest'][0]['exemplar']}.png").headers["content-type"] == "image/png"


def test_one_picture_as_the_body(client):
    for kind in ("image/png", "application/octet-stream"):
        found = client.post("/v1/predict?top=1", content=encoded("blue", 9), headers={"content-type": kind})
        assert found.json()["images"][0]["top"][0]["class"] == "blue"


def test_each_unreadable_picture_has_its_own_error(client):
    files = [*images("red"), ("images", ("broken.jpg", b"no picture")), ("images", ("cut.png", encoded("red")[:900]))]
    found = client.post("/v1/predict", files=[*files, *images("blue")])
    assert found.status_code == 200
    good, broken, cut, also_good = found.json()["images"]
    assert good["top"][0]["class"] == "red" and also_good["top"][0]["class"] == "blue"
    assert "cannot be read" in broken["error"] and "cut off" in cut["error"] and "top" not in broken


@pytest.mark.parametrize(
    "request_",
    [
        {"files": [("images", ("a.jpg", b"nothing"))]},
        {"files": [("images", ("a.jpg", b""))]},
        {"files": [("other", ("a.png", encoded("red")))]},
        {"content": b""},
        {"content": b"not a picture"},
        {"content": b"junk", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"junk", "headers": {"content-type": "multipart/form-data"}},
        {"files": images(*["red"] * 65)},
        {"files": images("red"), "params": {"top": 0}},
        {"files": images("red"), "params": {"top": "many"}},
    ],
)
def test_a_request_without_a_readable_picture_is_refused(client, request_):
    found = client.post("/v1/predict", **request_)
    assert 400 <= found.status_code < 500
    assert found.json()["error"]


def test_bad_pictures_by_the_hundred(client):
    """Bits of a good picture are turned over: an answer or an error for each, and never an error of the server."""
    good, draw = {kind: encoded("red", 1, 40, kind) for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")}, None
    draw = np.random.RandomState(0)
    for data in good.values():
        bad = []
        for _ in range(60):
            changed = np.frombuffer(data, np.uint8).copy()
            at = draw.randint(0, min(len(changed), draw.choice([60, len(changed)])), draw.randint(1, 12))
            changed[at] = draw.randint(0, 256, len(at))
            bad.append(("images", ("bad", changed.tobytes()[: draw.randint(1, len(changed) + 1)])))
        found = client.post("/v1/predict", files=bad)
        assert found.status_code in (200, 422)
        assert all(("error" in one) != ("top" in one) for one in found.json()["images"])


def test_bounds(model):
    limits = Limits(picture_bytes=50_000, pixels=20_000, request_bytes=200_000)
    with client_of(model, limits=limits) as client:
        large = client.post("/v1/predict", content=encoded("red", size=160)).json()["error"]
        assert "expected at most" in large
        pixels = client.post("/v1/predict", content=encoded("red", size=160, kind_of_file="GIF")).json()["error"]
        assert "160 x 160 pixels, expected at most 20000" in pixels
        assert client.post("/v1/predict", content=b"x" * 200_001).status_code == 413
        streamed = client.post("/v1/predict", content=(b"x" * 10_000 for _ in range(30)))
        assert streamed.status_code == 413


def test_what_a_picture_says_of_its_size_is_checked_before_it_is_decoded(client):
    """A PNG of a few bytes that says it has 30,000 x 30,000 pixels."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 10**6))
        + chunk(b"IEND", b"")
    )
    found = client.post("/v1/predict", content=bomb)
    assert found.status_code == 422 and ("pixels" in found.json()["error"] or "cannot be read" in found.json()["error"])


def test_kinds_of_files_that_call_other_programs_are_no_pictures(client):
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    assert client.post("/v1/predict", content=postscript).status_code == 422


def test_answering_imports_no_torch(model):
    code = (
        "import sys\nfrom starlette.testclient import TestClient\nfrom scail.server.app import make_app\n"
        "from scail.server.settings import ServerSettings\nfrom pathlib import Path\n"
        f"with TestClient(make_app(ServerSettings(Path({str(model)!r}))), base_url='http://localhost') as client:\n"
        f"    found = client.post('/v1/predict?nearest=1', content={encoded('red')!r})\n"
        "    assert client.get('/v1/classes').json()['top1'] is not None\n"
        "print(found.json()['images'][0]['top'][0]['class'], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["red", "False"], done.stderr
