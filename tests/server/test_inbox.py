"""The inbox: unknown and doubtful pictures wait in groups, are named, and are learned. Bounded, and off by default."""

from __future__ import annotations

import contextlib
import os
import time

from scail.cli.main import main
from scail.server.desk import desk_of
from tests.server.serving import after, client_of, encoded, eventually, images


def filled(client, count: int = 4, seed: int = 500) -> dict:
    client.post("/v1/predict", files=images(*["dots"] * count, "red", seed=seed))
    return eventually(lambda: (found := client.get("/v1/inbox").json())["count"] >= count and found)


def test_off_by_default(client, model):
    client.post("/v1/predict", files=images("dots"))
    assert client.get("/v1/inbox").json() == {"on": False, "most": 0, "days": 30.0, "count": 0, "groups": []}
    assert not (desk_of(model) / "inbox").exists()


def test_a_group_is_named_and_learned(model, capsys):
    with client_of(model, inbox=20) as client:
        found = filled(client)
        assert found["count"] == 4 and len(found["groups"]) == 1  # red is known, and all dots are alike
        group = found["groups"][0]["images"]
        assert all(one["unknown"] for one in group)
        assert client.get(group[0]["url"]).headers["content-type"] == "image/jpeg"
        client.post("/v1/predict", files=images(*["dots"] * 4, seed=500))  # the very same ones
        client.post("/v1/predict?keep=false", files=images("dots", seed=600))
        with contextlib.suppress(SystemExit):
            main(["info", str(model)])
        assert "inbox: 4 pictures" in capsys.readouterr().out
        ids = [one["id"] for one in group]
        job = after(client, client.post("/v1/inbox/learn", json={"images": ids, "class": "dots"}))
        assert job["status"] == "done" and job["classes"] == {"dots": 4}
        assert client.get("/v1/inbox").json()["count"] == 0
        assert client.post("/v1/predict", files=images("dots")).json()["images"][0]["top"][0]["class"] == "dots"
        missing = client.post("/v1/inbox/learn", json={"images": ids, "class": "dots"})
        assert missing.status_code == 404


def test_it_is_bounded_in_number_and_days(model):
    with client_of(model, inbox=3, inbox_days=2) as client:
        for seed in range(5):
            client.post("/v1/predict", files=images("dots", seed=700 + seed))
            eventually(lambda: not client.app.state.service.inbox._waiting)
        found = client.get("/v1/inbox").json()
        assert found["count"] == 3
        old = desk_of(model) / "inbox" / f"{found['groups'][0]['images'][0]['id']}.jpg"
        os.utime(old, (time.time() - 3 * 86400,) * 2)
        assert client.get("/v1/inbox").json()["count"] == 2 and not old.exists()


def test_what_is_damaged_is_asked_again_or_left_out(model):
    damages = {
        "json": [b"{", b"[]", b'{"when": 1e300}', b'{"when": 1, "stamp": "x", "unknown": true, "top": [[1]]}'],
        "npy": [b"", b"\x93NUMPY", b"PK\x03\x04", bytes(5000)],
    }
    with client_of(model, inbox=5) as client:
        found = filled(client, 2)
        first, second = (one["id"] for group in found["groups"] for one in group["images"])
        inbox = desk_of(model) / "inbox"
        for ending, contents in damages.items():
            for content in contents:
                (inbox / f"{first}.{ending}").write_bytes(content)
                assert client.get("/v1/inbox").json()["count"] == 2
        described = inbox / f"{first}.json"
        described.unlink()
        os.mkfifo(described)  # is not waited for
        (inbox / f"{first}.jpg").write_bytes(b"no picture")
        left = client.get("/v1/inbox").json()
        assert [one["id"] for group in left["groups"] for one in group["images"]] == [second]


def test_discard_and_names_of_strangers(model):
    with client_of(model, inbox=5) as client:
        found = filled(client, 2)
        ids = [one["id"] for group in found["groups"] for one in group["images"]]
        assert client.get("/v1/inbox/..%2f..%2fm%2fmanifest.jpg").status_code == 404
        assert client.post("/v1/inbox/discard", json={"images": ["../../m/manifest", "x" * 32]}).json() == {
            "removed": 0
        }
        assert client.post("/v1/inbox/discard", json={"images": ids}).json() == {"removed": 2}
        assert client.get("/v1/inbox").json()["count"] == 0
        assert list((desk_of(model) / "inbox").iterdir()) == []


def test_pictures_in_it_say_nothing_beside_their_pixels(model):
    """Where and when a photograph was taken is not kept."""
    import io

    from PIL import Image

    photograph, exif = Image.open(io.BytesIO(encoded("dots", 9))), Image.Exif()
    exif[0x010F] = "A camera"
    file = io.BytesIO()
    photograph.save(file, "JPEG", exif=exif)
    with client_of(model, inbox=5) as client:
        client.post("/v1/predict", content=file.getvalue())
        found = eventually(lambda: (found := client.get("/v1/inbox").json())["count"] and found)
        kept = client.get(found["groups"][0]["images"][0]["url"]).content
        assert b"A camera" not in kept and not Image.open(io.BytesIO(kept)).getexif()
