"""Every page, as a reader would go through it: each block is carried out, in order, in a new folder."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest

from scail import IncrementalClassifier
from scail.networks.pretrained import has_pretrained
from tests.docs.reading import blocks, lines_of, shown, walk
from tests.docs.scenes import SCENES

pretrained = pytest.mark.skipif(
    not has_pretrained("efficientnet-lite0"), reason="the pretrained weights are not installed"
)


def gone_through(page: str, place: Path) -> str:
    return walk(page, SCENES[page], place)[0]


@pytest.mark.parametrize("page", SCENES)
def test_what_is_not_run_or_made_smaller_stands_in_the_page(page):
    text = "\n".join(code for _, code in blocks(page))
    lines = [line for kind, code in blocks(page) if kind == "sh" for line in lines_of(code)]
    assert all(any(line.startswith(begin) for line in lines) for begin, _ in SCENES[page].not_run)
    assert all(old in text for old, _ in SCENES[page].smaller)


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory):
    """The one page that is carried out in `make test`."""
    return gone_through("docs/start/tutorial.md", tmp_path_factory.mktemp("tutorial"))


@pretrained
def test_the_model_of_the_tutorial_learned_three_times(tutorial):
    assert "3 classes in 2 state(s), 2 call(s) of learn" in tutorial
    assert "state 1: portrait" in tutorial
    assert tutorial.count("portrait") > 5 and "\tunknown" in tutorial
    assert "group 1: 5 pictures: photos/test/portrait" in tutorial
    assert "'temple' is forgotten" in tutorial and "('flower', 'portrait')" in tutorial
    (accuracy,) = (float(found) for found in re.findall(r"15 images: top-1 ([\d.]+) %", tutorial))
    assert accuracy > 90  # one in three by chance


@pretrained
def test_what_the_tutorial_shows_is_what_is_printed(tutorial):
    lines = shown("docs/start/tutorial.md")
    assert len(lines) >= 5 and [line for line in lines if line not in tutorial] == []


@pretrained
@pytest.mark.soak
def test_the_readme(tmp_path):
    said = gone_through("README.md", tmp_path)
    assert [line for line in shown("README.md") if line not in said] == []
    assert "ScaIL" in said and "estimated time" in said and (tmp_path / "runs/digits/report.html").is_file()


@pytest.mark.soak
def test_a_table_in_ten_minutes(tmp_path):
    said = gone_through("docs/start/table.md", tmp_path)
    assert all((tmp_path / "runs" / name / "report.html").is_file() for name in ("first", "more-memory", "compared"))
    assert "ScaIL" in said and "memory of 28 images" in said


@pretrained
@pytest.mark.soak
def test_own_photographs(tmp_path):
    said = gone_through("docs/how-to/own-photographs.md", tmp_path)
    assert "2 new class(es), 30 images: cat, dog" in said and "3 new class(es), 60 images" in said
    assert float(re.search(r"10 images: top-1 ([\d.]+) %", said)[1]) > 80


@pretrained
@pytest.mark.soak
def test_serve_and_deploy(tmp_path):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    if shutil.which("curl") is None:
        pytest.skip("curl is not on this machine")
    page = "docs/how-to/serve-and-deploy.md"
    said = gone_through(page, tmp_path)
    answer = json.loads(next(line for line in said.splitlines() if line.startswith('{"model"')))
    example = json.loads(next(code for kind, code in blocks(page) if kind == "json"))
    assert answer["images"][1] == example["images"][1]
    assert [one.keys() for one in answer["images"]] == [one.keys() for one in example["images"]]
    assert '"status":"done"' in said and '"status":"failed"' not in said


@pretrained
@pytest.mark.soak
def test_share_a_model(tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    gone_through("docs/how-to/share-a-model.md", tmp_path)
    assert "portrait" in (tmp_path / "mnt/models/pets/manifest.json").read_text()


@pytest.mark.soak
def test_reproduce_a_table(tmp_path):
    said = gone_through("docs/how-to/reproduce-a-table.md", tmp_path)
    assert "estimated time" in said and len(list((tmp_path / "kept").glob("*.jsonl"))) == 12
    assert (tmp_path / "runs/table1-quick/report.html").is_file()
    assert "FT" in (tmp_path / "kept/measured.md").read_text()


@pytest.mark.soak
def test_read_a_report(tmp_path):
    gone_through("docs/how-to/read-a-report.md", tmp_path)
    assert ".pdf" in {path.suffix for path in (tmp_path / "runs/first/figures").iterdir()}
    assert (tmp_path / "compared/report.html").is_file()


@pytest.mark.soak
def test_own_method(tmp_path):
    said = gone_through("docs/how-to/own-method.md", tmp_path)
    assert "FAIL" not in said and "same on two ranks" in said and "half*" in said


@pytest.mark.soak
def test_own_training_code(tmp_path):
    page = "docs/how-to/own-training-code.md"
    said, names = walk(page, SCENES[page], tmp_path)
    folder = tmp_path / "runs/digits"
    assert {"report.html", "table.md", "summary.json", "figures", "tables"} <= {one.name for one in folder.iterdir()}
    assert "ScaIL herding" in said and names["scores"].shape == (7, 8)
    assert ((names["scores"][:, :5] > -float("inf")).sum(1) == 3).all()  # of five past classes three are candidates


@pytest.mark.soak
def test_several_devices(tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    gone_through("docs/how-to/several-devices.md", tmp_path)
    for name in ("table1-seed1", "ilsvrc-16"):
        assert (tmp_path / "runs" / name / "report.html").is_file()


@pretrained
@pytest.mark.soak
def test_the_classifier(tmp_path):
    page = "docs/reference/classifier.md"
    said, names = walk(page, SCENES[page], tmp_path)
    assert (tmp_path / "model/manifest.json").is_file() and (tmp_path / "new/rabbit").is_dir()
    assert "1 new class(es), 15 images: rabbit" in said
    with contextlib.chdir(tmp_path):
        found = IncrementalClassifier.load("model")
        assert found.classes_ == ("cow", "Canis familiaris") == tuple(found.predict(["1.jpg", "12.jpg"]))
    assert {*names["clf"].classes_} == {*range(10)}
