"""Models travel: pushed and pulled whole, checked, and never over something that was not seen."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from scail.classifier import sharing
from scail.classifier.folder import check_folder, look
from scail.classifier.folder.card import described_by
from scail.classifier.folder.record import FolderError
from scail.classifier.in_folder import learn_into, rename_in
from scail.classifier.sharing import pull, push
from scail.cli.main import main
from scail.storage.shelf import ShelfError, without_secrets
from tests.classifier.little import little, little_images
from tests.storage.hub_stand_in import TOKEN, hub_in_use, serve_at

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the Hub's own library


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    root = tmp_path_factory.mktemp("sharing") / "model"
    learn_into(root, *little_images("a", "b"), make=lambda: little(memory=4))
    return root


@pytest.fixture
def model(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "model"))


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/shelf/pets"


@pytest.fixture
def hub(tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    with hub_in_use(tmp_path / "cache") as hub:
        yield hub


def content(root: Path) -> dict[str, bytes]:
    names = {"manifest.json"} | look(root).manifest.files()
    return {name: (root / name).read_bytes() for name in names}


def said(capsys, *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    out = capsys.readouterr()
    assert "Traceback" not in out.err and TOKEN not in out.out + out.err
    return int(end.value.code or 0), out.out + out.err


def test_a_model_goes_there_and_comes_back(model, url, tmp_path):
    told = push(model, url)
    assert "2 classes" in told and "the 4 picture(s)" in told
    pull(url, tmp_path / "got")
    assert content(tmp_path / "got") == content(model)
    found = check_folder(tmp_path / "got")
    assert not found.damaged and not found.left and not found.others
    assert url in (tmp_path / "shelf/pets/README.md").read_text()
    assert "has this very model" in push(model, url) and "has this very model" in pull(url, tmp_path / "got")


def test_learning_goes_on_on_both_sides(model, url, tmp_path):
    push(model, url)
    pull(url, tmp_path / "got")
    rename_in(model, "a", "aa")
    push(model, url)
    assert {path.name for path in (tmp_path / "shelf/pets").glob("*.*")} == {
        *(name for name in look(model).manifest.files() if "/" not in name), "manifest.json", "README.md",
    }  # fmt: skip
    pull(url, tmp_path / "got")
    assert [one.name for one in look(tmp_path / "got").manifest.classes] == ["aa", "b"]
    rename_in(tmp_path / "got", "b", "bb")
    push(tmp_path / "got", url)
    with pytest.raises(ShelfError, match="changed by somebody"):
        rename_in(model, "aa", "c")
        push(model, url)
    with pytest.raises(FolderError, match="was changed since it was shared"):
        pull(url, model)
    assert [one.name for one in look(model).manifest.classes] == ["c", "b"]


def test_nothing_foreign_is_replaced(model, url, tmp_path):
    push(model, url)
    other = tmp_path / "other"
    learn_into(other, *little_images("x", "y"), make=lambda: little(memory=4))
    with pytest.raises(ShelfError, match="holds another model"):
        push(other, url)
    before = content(other)
    with pytest.raises(FolderError, match="holds another model"):
        pull(url, other)
    assert content(other) == before
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").touch()
    with pytest.raises(FolderError, match=r"holds 'a.txt' and is not a scail model"):
        pull(url, tmp_path / "notes")
    with pytest.raises(ShelfError, match=r"holds 'a.txt' and is not a scail model"):
        push(model, f"file://{tmp_path}/notes")
    push(other, url, replace=True)
    pull(url, tmp_path / "got")
    assert content(tmp_path / "got") == before


@pytest.mark.parametrize("kind", ["evidence-*", "exemplars/*/*", "manifest.json"])
def test_what_is_damaged_there_is_not_put_in_place(model, url, tmp_path, kind):
    push(model, url)
    (path, *_) = sorted((tmp_path / "shelf/pets").glob(kind))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FolderError) as error:
        pull(url, tmp_path / "got")
    assert str(error.value).startswith(url) and "scail-pull" not in str(error.value)
    assert not (tmp_path / "got").exists()


def test_what_is_damaged_here_is_not_pushed(model, url, tmp_path):
    (picture, *_) = sorted(model.glob("exemplars/*/*.png"))
    picture.write_bytes(b"no picture")
    with pytest.raises(FolderError, match=picture.name):
        push(model, url)
    picture.unlink()
    with pytest.raises(FolderError, match="is missing"):
        push(model, url)
    assert not (tmp_path / "shelf").exists()


def test_only_what_the_manifest_names_is_fetched(model, url, tmp_path):
    push(model, url)
    (tmp_path / "shelf/pets/run_me.py").write_text("import os")
    (tmp_path / "shelf/pets/exemplars" / f"gone-{'0' * 12}").mkdir()
    pull(url, tmp_path / "got")
    assert not (tmp_path / "got/run_me.py").exists() and not check_folder(tmp_path / "got").others


def test_of_a_push_that_was_killed_nobody_sees_a_half(model, url, tmp_path, monkeypatch):
    from scail.storage.url_shelf import UrlShelf

    push(model, url)
    before, put = content(model), UrlShelf._put
    rename_in(model, "a", "aa")

    def put_but_for_the_network(shelf, folder, name):
        if name.startswith("network"):
            raise KeyboardInterrupt
        put(shelf, folder, name)

    with monkeypatch.context() as patch:
        patch.setattr(UrlShelf, "_put", put_but_for_the_network)
        with pytest.raises(KeyboardInterrupt):
            push(model, url)
    pull(url, tmp_path / "got")
    assert content(tmp_path / "got") == before
    push(model, url)
    pull(url, tmp_path / "got")
    assert content(tmp_path / "got") == content(model)


def test_a_card_written_by_hand_stays(model, url, tmp_path):
    push(model, url)
    pull(url, tmp_path / "got")
    card = tmp_path / "shelf/pets/README.md"
    card.write_text("# By hand")
    rename_in(model, "a", "aa")
    assert "written by hand and stays" in push(model, url)
    assert card.read_text() == "# By hand"
    (model / "README.md").write_text("# Mine")
    rename_in(model, "aa", "a")
    push(model, url, replace=True)
    pull(url, tmp_path / "got")
    assert card.read_text() == "# Mine" == (tmp_path / "got/README.md").read_text()


def test_memory_file_system(model, tmp_path):
    push(model, "memory://models/pets")
    pull("memory://models/pets", tmp_path / "got")
    assert content(tmp_path / "got") == content(model)


def test_the_hub(model, hub, tmp_path, capsys, monkeypatch):
    assert said(capsys, "push", model, "hf:me/pets", "--private")[0] == 0
    assert hub.repositories["me/pets"].private
    assert len(hub.repositories["me/pets"].commits) == 2  # it was made, and pushed to in one step
    assert described_by(hub.files("me/pets")["README.md"]) == look(model).stamp
    assert "pull hf:me/pets" in hub.files("me/pets")["README.md"].decode()
    monkeypatch.chdir(tmp_path)
    code, told = said(capsys, "pull", "hf:me/pets")
    assert code == 0 and "pets: 2 classes" in told and content(tmp_path / "pets") == content(model)
    rename_in(model, "a", "aa")
    push(model, "hf:me/pets")
    assert {*hub.files("me/pets")} == {*content(model), "README.md", ".gitattributes"}
    assert "2 classes" in pull("hf:me/pets", tmp_path / "pets") and content(tmp_path / "pets") == content(model)
    rename_in(model, "aa", "branched")
    push(model, "hf:me/pets", revision="next", replace=True)
    pull("hf:me/pets", tmp_path / "next", revision="next")
    assert content(tmp_path / "next") == content(model) != content(tmp_path / "pets")
    first = next(iter(hub.repositories["me/pets"].commits))
    assert "no scail model" in said(capsys, "pull", "hf:me/pets", "old", "--revision", first)[1]
    assert not list((tmp_path / "cache").rglob("*.png"))


def test_errors_of_the_hub_are_one_line(model, hub, capsys, monkeypatch):
    assert said(capsys, "pull", "hf:me/none", "x") == (
        2, "scail: error: hf:me/none: there is no scail model, or it is private and you are not logged in\n",
    )  # fmt: skip
    push(model, "hf:me/public")
    code, told = said(capsys, "push", model, "hf:me/public", "--private", "--replace")
    assert code == 0 and "very model" in told
    rename_in(model, "a", "aa")
    code, told = said(capsys, "push", model, "hf:me/public", "--private")
    assert code == 2 and "is there and public" in told
    monkeypatch.setenv("HF_TOKEN", "hf_another" + "one" * 5)
    code, told = said(capsys, "push", model, "hf:me/new")
    assert code == 2 and "does not allow it" in told and told.count("\n") == 1 and "another" not in told
    assert said(capsys, "push", model, "hf:new")[1].endswith("expected hf:owner/name\n")
    serve_at(monkeypatch, "http://127.0.0.1:9")
    code, told = said(capsys, "pull", "hf:me/public", "x")
    assert code == 2 and told.count("\n") == 1


def test_two_pushes_at_a_time(model, hub, monkeypatch):
    push(model, "hf:me/pets")
    rename_in(model, "a", "aa")
    monkeypatch.setattr(sharing, "_card", lambda *_: hub.repositories["me/pets"].commit("main", {}) and (None, False))
    with pytest.raises(ShelfError, match="changed meanwhile"):
        push(model, "hf:me/pets")


def test_without_the_extra(model, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install 'scail[hub]'" in said(capsys, "push", model, "hf:me/pets")[1]
    assert "pip install 'scail[hub]'" in said(capsys, "pull", "hf:me/pets", "x")[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pull", "pets"], "expected hf:owner/name, or a URL"),
        (["pull", "https://me:pass@host/pets?key=12345678", "x"], "https://host/pets?...: "),
        (["pull", "nothing://at/all", "x"], "nothing://at/all: "),
        (["pull", "file:///nowhere/at/all", "x", "--revision", "a"], "--revision is for the Hugging Face hub"),
        (["pull", "file:///nowhere/at/all", "x"], "there is no scail model"),
    ],
)
def test_mistakes(words, expected, capsys):
    code, told = said(capsys, *words)
    assert code == 2 and expected in told and "pass@" not in told and told.count("\n") == 1


def test_no_secret_is_told():
    for text in (f"token {TOKEN}", "Bearer abcdefgh12345", "s3://key:secret@bucket/a", "https://h/a?X-Signature=12"):
        assert not any(part in without_secrets(text) for part in (TOKEN, "abcdefgh12345", "secret@", "Signature=12"))
