"""Teaching, forgetting, renaming, correcting and taking back, as jobs whose progress can be followed."""

from __future__ import annotations

import io
import json
import stat
import zipfile

import pytest

from scail import IncrementalClassifier, learn_into
from scail.classifier.in_folder import forget_in
from scail.server import tutor
from scail.server.desk import Desk, desk_of, new_job
from scail.server.limits import Limits
from scail.storage.atomic import write_bytes
from tests.server.serving import after, client_of, encoded, eventually, images, picture, teach

EVIL = "<script>window.broken = 1</script>"


def names(client) -> list[str]:
    return [one["name"] for one in client.get("/v1/classes").json()["classes"]]


def test_a_class_is_learned_and_found(client, model):
    job = teach(client, "dots", "dots")
    assert job["status"] == "done" and job["classes"] == {"dots": 5}
    assert job["result"]["classes"]["dots"][0] == 5 and set(job["result"]["before"]) == {"red", "green", "blue"}
    assert any("left out one by one" in text for text in job["said"])
    found = client.post("/v1/predict?top=1", files=images("dots", seed=400)).json()["images"][0]
    assert found["top"][0]["class"] == "dots"
    classes = client.get("/v1/classes").json()
    dots = classes["classes"][-1]
    assert dots["name"] == "dots" and dots["images"] == 5 and dots["exemplars"] == 5 and dots["since"]
    assert classes["top1"] == job["result"]["accuracy"]["top1"] and dots["measured"] == 5
    assert IncrementalClassifier.load(model, verbose=False).classes_ == ("red", "green", "blue", "dots")
    assert not list(desk_of(model).glob("jobs/*/picture-*"))  # the model alone keeps pictures, and at most B


def test_progress_by_server_sent_events(client):
    response = client.post("/v1/learn", data={"class": "dots"}, files=images(*["dots"] * 4))
    with client.stream("GET", response.headers["location"] + "/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        text = "".join(stream.iter_text())
    events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
    assert any(event.get("of") == 4 for event in events[:-1])
    assert "event: end" in text and events[-1]["status"] == "done"
    later = client.get(response.headers["location"] + "/events", headers={"last-event-id": "1"}).text
    assert "id: 1\n" not in later and "id: 2\n" in later


def test_pictures_that_cannot_be_read_are_left_out_and_named(client):
    files = [*images("dots", "dots"), ("images", ("bad.jpg", b"bad"))]
    response = client.post("/v1/learn", data={"class": "dots"}, files=files)
    assert [one["name"] for one in response.json()["images"]] == ["bad.jpg"]
    assert after(client, response)["classes"] == {"dots": 2}
    for nothing in ([("images", ("bad.jpg", b"bad"))], []):
        refused = client.post("/v1/learn", data={"class": "dots"}, files=nothing or None)
        assert 400 <= refused.status_code < 500 and refused.json()["error"]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\x1b[2J", "x" * 201])
def test_names_that_no_class_can_have(client, name):
    found = client.post("/v1/learn", data={"class": name}, files=images("dots"))
    assert found.status_code == 422


@pytest.mark.parametrize("name", [EVIL, "../../etc/passwd", "класс ☂"])
def test_names_are_data(client, model, name):
    before = set(model.parent.rglob("*"))
    assert teach(client, name, "dots", 3)["status"] == "done"
    assert name in names(client)
    assert len(client.get("/v1/exemplars", params={"class": name}).json()["exemplars"]) == 3
    strange = [path for path in set(model.parent.rglob("*")) - before if desk_of(model) not in path.parents]
    assert all(model in path.parents for path in strange)
    assert after(client, client.post("/v1/forget", json={"class": name}))["status"] == "done"
    assert name not in names(client)


def test_forget_rename_correct_and_undo(client):
    renamed = after(client, client.post("/v1/rename", json={"class": "red", "to": "scarlet"}))
    assert renamed["status"] == "done" and names(client) == ["scarlet", "green", "blue"]
    clash = after(client, client.post("/v1/rename", json={"class": "green", "to": "blue"}))
    assert clash["status"] == "failed" and "already" in clash["error"]
    forgotten = after(client, client.post("/v1/forget", json={"class": "green"}))
    assert "Nothing of it is left" in forgotten["result"]["left"] and names(client) == ["scarlet", "blue"]
    wrong = teach(client, "blue", "dots", 2)
    assert wrong["status"] == "done"
    assert "taken back" in after(client, client.post("/v1/undo"))["result"]["left"]
    assert client.get("/v1/classes").json()["classes"][1]["images"] == 6


def test_pictures_learned_under_the_wrong_name_are_moved(client):
    assert teach(client, "blue", "dots", 4)["status"] == "done"
    like = client.post("/v1/predict?nearest=4", files=images("dots", seed=300)).json()["images"][0]["nearest"]
    ids = [one["exemplar"] for one in like if one["class"] == "blue"]
    moved = after(client, client.post("/v1/correct", json={"images": ids, "to": "dots"}))
    assert moved["status"] == "done", moved["error"]
    found = {one["name"]: one["images"] for one in client.get("/v1/classes").json()["classes"]}
    assert found == {"red": 6, "green": 6, "blue": 10 - len(ids), "dots": len(ids)}
    kept = client.get("/v1/exemplars", params={"class": "dots"}).json()["exemplars"]
    single = after(client, client.post("/v1/forget", json={"class": "dots", "images": [kept[0]["id"]]}))
    assert single["status"] == "done", single["error"]
    assert len(client.get("/v1/exemplars", params={"class": "dots"}).json()["exemplars"]) == len(ids) - 1


@pytest.mark.parametrize(
    "path, body",
    [
        ("forget", {"class": "nobody"}),
        ("rename", {"class": "nobody", "to": "x"}),
        ("correct", {"images": ["0" * 32], "to": "red"}),
        ("correct", {"images": ["../../x"], "to": "red"}),
    ],
)
def test_what_is_not_there_is_not_found(client, path, body):
    found = client.post(f"/v1/{path}", json=body)
    assert found.status_code == 404 and found.json()["error"]
    assert client.get("/v1/jobs/" + "0" * 24).status_code == 404
    assert client.get("/v1/jobs/..%2f..%2fm").status_code == 404
    assert client.get("/v1/exemplars/" + "0" * 32 + ".png").status_code == 404


def zipped(files: dict[str, bytes], link: str | None = None) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
    return file.getvalue()


def test_an_archive_of_folders(client):
    files = {f"things/{kind}/{n}.png": encoded(kind, 200 + n) for kind in ("dots", "red") for n in range(3)}
    files |= {"__MACOSX/things/x": b"1", "things/dots/.DS_Store": b"1", "things/dots/broken.jpg": b"1"}
    response = client.post("/v1/learn", files={"archive": ("a.zip", zipped(files))})
    assert [one["name"] for one in response.json()["images"]] == ["things/dots/broken.jpg"]
    assert after(client, response)["classes"] == {"dots": 3, "red": 3}
    assert names(client) == ["red", "green", "blue", "dots"]


@pytest.mark.parametrize(
    "data, said",
    [
        (zipped({"../../evil/x.png": encoded("red")}), "leads out of it"),
        (zipped({"/etc/evil/x.png": encoded("red")}), "leads out of it"),
        (zipped({"a\\..\\b/x.png": encoded("red")}), "leads out of it"),
        (zipped({"a/x.png": encoded("red")}, link="a/link.png"), "is a link"),
        (zipped({"x.png": encoded("red")}), "is in no folder"),
        (zipped({f"a/{n}": b"" for n in range(50)}), "expected at most 40"),
        (zipped({"a/bomb.png": b"\0" * 300_000}), "expected at most"),
        (zipped({f"a/{n}.png": b"\0" * 90_000 for n in range(12)}), "bytes unpacked"),
        (zipped({}), "holds no files"),
        (b"PK\x03\x04 no archive", "cannot be read as a ZIP"),
        (zipped({"a/x.png": encoded("red")})[:-40], "cannot be read as a ZIP"),
    ],
)
def test_archives_are_looked_through_before_they_are_unpacked(model, data, said):
    limits = Limits(taught=40, picture_bytes=100_000, unpacked_bytes=10**6)
    before = set(model.parent.rglob("*"))
    with client_of(model, limits=limits) as client:
        found = client.post("/v1/learn", files={"archive": ("a.zip", data)})
    assert found.status_code in (413, 422) and said in found.json()["error"]
    assert {path for path in set(model.parent.rglob("*")) - before if path.suffix != ".lock"} == set()


def test_a_first_class_in_an_empty_place(tmp_path):
    with client_of(tmp_path / "new") as client:
        refused = client.post("/v1/predict", files=images("red"))
        assert refused.status_code == 503 and "teach it a class first" in refused.json()["error"]
        assert client.get("/v1/classes").json()["classes"] == []
        assert teach(client, "red", "red", 3)["status"] == "done"
        assert teach(client, "blue", "blue", 3)["status"] == "done"
        assert client.post("/v1/predict?top=1", files=images("blue")).json()["images"][0]["top"][0]["class"] == "blue"


def test_the_command_line_beside_it(client, model):
    """What others change in the folder is picked up, and measured."""
    learn_into(model, [picture("dots", n) for n in range(5)], ["dots"] * 5, verbose=False)
    found = eventually(lambda: [one for one in client.get("/v1/classes").json()["classes"] if one["name"] == "dots"])
    assert found[0]["images"] == 5
    assert client.post("/v1/predict?top=1", files=images("dots")).json()["images"][0]["top"][0]["class"] == "dots"
    eventually(lambda: client.get("/v1/classes").json()["top1"] is not None)
    forget_in(model, "dots")
    eventually(lambda: "dots" not in names(client))


def test_two_servers_on_one_folder(model):
    with client_of(model) as one, client_of(model) as other:
        response = one.post("/v1/learn", data={"class": "dots"}, files=images(*["dots"] * 4))
        assert after(other, response)["status"] == "done"  # either knows of the job
        for client in (one, other):
            assert eventually(lambda c=client: "dots" in names(c))
            assert (
                client.post("/v1/predict?top=1", files=images("dots")).json()["images"][0]["top"][0]["class"] == "dots"
            )


def test_a_lesson_whose_process_was_killed_goes_on(model):
    """What a tutor left as running is done by the next one; a change that stands already is not made twice."""
    desk = Desk(desk_of(model))
    lesson = new_job("learn", classes=("dots",) * 3)
    desk.add(lesson, [encoded("dots", n) for n in range(3)])
    desk.update(lesson, status="running", attempts=1)
    with client_of(model) as client:
        job = client.get(f"/v1/jobs/{lesson.id}?wait=60").json()
        assert job["status"] == "done" and "dots" in names(client)
    again = new_job("forget", classes=("dots",))
    desk.add(again)
    forget_in(model, "dots")
    desk.update(again, status="running", attempts=1)
    tutor.carry_out(model, desk, desk.job(again.id))
    assert desk.job(again.id).status == "done"
    doomed = new_job("undo")
    desk.add(doomed)
    tutor.carry_out(model, desk, desk.update(doomed, attempts=tutor.MOST_ATTEMPTS))
    assert "was killed each time" in desk.job(doomed.id).error


def test_pictures_of_a_job_that_ended_go_also_where_its_tutor_was_killed_before(tmp_path):
    desk = Desk(tmp_path)
    desk.make()
    ended, waiting = new_job("learn", classes=("a",)), new_job("learn", classes=("b",))
    for job in (ended, waiting):
        desk.add(job, [b"picture"])
    desk.update(ended, status="done")  # here it is killed
    desk.sweep()
    assert not desk.pictures(ended) and len(desk.pictures(waiting)) == 1


@pytest.mark.parametrize("line", [b"5", b'"of"', b"[1]", b'{"said": 1}', b"{", b"\xff", b"NaN", b"[" * 9999])
def test_what_was_said_of_a_job_and_is_damaged_is_left_out_and_moves_nothing(tmp_path, line):
    desk, job = Desk(tmp_path), new_job("learn", classes=("a",))
    desk.make()
    desk.add(job)
    desk.say(job, {"said": "one"})
    with (desk.jobs / job.id / "events.jsonl").open("ab") as file:
        file.write(line + b"\n")
    desk.say(job, {"said": "two"})
    assert desk.events(job.id) == [{"said": "one"}, {}, {"said": "two"}] and desk.events(job.id, 2) == [{"said": "two"}]


@pytest.mark.parametrize(
    "said", ["[]", "{}", '{"accuracy": 1, "classes": {}}', '{"accuracy": null, "classes": {"a": [1]}}']
)
def test_a_report_that_is_damaged_is_measured_again(tmp_path, said):
    desk = Desk(tmp_path)
    desk.make()
    desk.keep_report("0" * 64, {"accuracy": None, "classes": {"a": [3, 2]}})
    assert desk.report("0" * 64) == {"accuracy": None, "classes": {"a": [3, 2]}}
    (desk.reports / f"{'0' * 64}.json").write_text(said)
    assert desk.report("0" * 64) is None


def test_a_strange_file_among_the_pictures_of_a_job_stays_and_hinders_nothing(tmp_path):
    desk, job = Desk(tmp_path), new_job("learn", classes=("a",))
    desk.make()
    desk.add(job, [b"picture"])
    strange = desk.jobs / job.id / "picture-of-me.jpg"
    strange.touch()
    assert [path.name for path in desk.pictures(job)] == ["picture-0"]
    desk.end(job, status="done")
    assert strange.exists() and not desk.pictures(job)


def test_a_full_disk(model, monkeypatch):
    """The job is refused or fails, says why, and the old model answers."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with client_of(model) as client:
        with monkeypatch.context() as patched:
            patched.setattr("scail.server.desk.Desk.add", full)
            found = client.post("/v1/learn", data={"class": "dots"}, files=images("dots"))
            assert found.status_code == 507 and "No space left" in found.json()["error"]
        assert client.post("/v1/predict", files=images("red")).status_code == 200
    desk, job = Desk(desk_of(model)), new_job("learn", classes=("dots",) * 2)
    desk.add(job, [encoded("dots", n) for n in range(2)])
    with monkeypatch.context() as patched:
        patched.setattr("scail.classifier.folder.write.write_bytes", full)
        tutor.carry_out(model, desk, desk.job(job.id))
    assert desk.job(job.id).status == "failed" and "The model that was there is as it was" in desk.job(job.id).error
    assert IncrementalClassifier.load(model, verbose=False).classes_ == ("red", "green", "blue")


def test_a_lesson_is_done_also_where_its_report_cannot_be_kept(model, monkeypatch):
    desk, job, real = Desk(desk_of(model)), new_job("learn", classes=("dots",) * 2), write_bytes
    desk.add(job, [encoded("dots", n) for n in range(2)])

    def full(path, *given) -> None:
        if path.parent.name == "reports":
            raise OSError(28, "No space left on device", str(path))
        real(path, *given)

    monkeypatch.setattr("scail.server.desk.write_bytes", full)
    tutor.carry_out(model, desk, desk.job(job.id))
    assert desk.job(job.id).status == "done" and not desk.pictures(job)
    assert "dots" in IncrementalClassifier.load(model, verbose=False).classes_
    monkeypatch.setattr(tutor, "_FULL", 0.0)
    assert not tutor._measure_missing(model, desk)  # it is tried again later


def test_too_many_jobs(model, monkeypatch):
    monkeypatch.setattr("scail.server.service.Service._see_to_tutor", lambda service: None)
    with client_of(model, limits=Limits(jobs=2)) as client:
        found = [client.post("/v1/forget", json={"class": "red"}) for _ in range(3)]
        assert [one.status_code for one in found] == [202, 202, 503]
        assert found[-1].headers["retry-after"]
        assert [job["status"] for job in client.get("/v1/jobs").json()["jobs"]] == ["waiting"] * 2
