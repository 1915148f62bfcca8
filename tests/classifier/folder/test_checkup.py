"""A folder that is read again: every damage is named, all of them at once, and nothing sound is."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from scail import IncrementalClassifier
from scail.classifier.folder import FolderError, check_folder, look
from scail.classifier.in_folder import learn_into
from scail.cli.main import main
from scail.storage.checkpoint import Checkpoint
from tests.classifier.folder.test_folder import DAMAGES, flip, rewrite, spoiled
from tests.classifier.little import little, little_images
from tests.storage.stored import entry

PROBE = little_images("a", "b", "c", seed=9)[0]
BEFORE = Path(__file__).parents[2] / "data" / "version_0_1"


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A model of two calls, so that there is one to take back, with held-out images."""
    place = tmp_path_factory.mktemp("model") / "model"
    for names in (("a", "b"), ("c",)):
        learn_into(place, *little_images(*names), make=lambda: little(validation=0.2), say=lambda text: None)
    return place


@pytest.fixture
def folder(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


def test_a_sound_model_is_sound_and_everything_was_read(folder):
    found = check_folder(folder)
    manifest = look(folder).manifest
    assert found.damaged == found.left == found.others == ()
    assert sum(found.counts.values()) == len(manifest.files())
    assert found.counts["pictures"] == sum(name.endswith(".png") for name in manifest.files()) > 5
    assert found.counts["files of numbers"] == len(manifest.numbers() | manifest.before.numbers()) > 2
    assert found.counts["files that answer"] == 1
    assert found.size + (folder / "manifest.json").stat().st_size == look(folder).size


@pytest.mark.parametrize("name", ["model-bic", "model-deesil"])
def test_models_of_version_0_1_are_sound(name):
    assert check_folder(BEFORE / name).damaged == ()


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_every_damage_is_named(folder, damage):
    damage(folder)
    (said,) = check_folder(folder).damaged
    assert str(folder) in said


def test_all_damages_are_named_at_once_also_of_what_is_kept_to_take_back(folder):
    manifest = look(folder).manifest
    gone = sorted(manifest.files())[:3]
    for name in gone:
        (folder / name).unlink()
    former = folder / manifest.before.network.name
    if former.exists():
        flip(former)
    said = check_folder(folder).damaged
    for name in {*gone, manifest.before.network.name}:
        assert sum(name in text for text in said) == 1, name
    assert len(said) == len({*gone, manifest.before.network.name})


def test_files_that_do_not_fit_together_are_named(folder):
    """Each of them is whole."""
    rewrite(folder, lambda record: record["classes"][2].update(first_state=0))
    (said,) = check_folder(folder).damaged
    assert "evidence-" in said and "top_score_S is (2,)" in said
    assert "has numbers that are NaN" in " ".join(_of(folder, spoiled("network")))


def _of(folder: Path, change) -> tuple[str, ...]:
    change(folder)
    return check_folder(folder).damaged


def test_unfinished_trainings_leftovers_and_others_are_told_apart(folder):
    (folder / "unfinished").mkdir(exist_ok=True)
    for name in "ab":
        Checkpoint(folder / "unfinished" / f"{name * 32}.safetensors").stage("training").save(entry())
    held = next((folder / "exemplars").iterdir())
    left = {
        f".scail-manifest.json.{'0' * 32}", f"network-{'1' * 32}.safetensors", f"unfinished/.scail-x.{'2' * 32}",
        f"exemplars/{held.name}/{'3' * 32}.png",
    }  # fmt: skip
    others = {
        "notes.txt",
        "exemplars/notes.txt",
        f"exemplars/{held.name}/cat.png",
        "held-out/cat/1.png",
        "unfinished/thesis.txt",
    }
    (folder / "held-out" / "cat").mkdir()
    for name in left | others:
        (folder / name).write_bytes(b"x")
    found = check_folder(folder)
    assert (set(found.left), set(found.others)) == (left, others)
    assert found.damaged == () and found.counts["unfinished trainings"] == 2
    path = folder / "unfinished" / f"{'a' * 32}.training.safetensors"
    flip(path)
    (said,) = check_folder(folder).damaged
    assert str(path) in said and "the same learn begins that training anew" in said


def same(one: IncrementalClassifier, other: IncrementalClassifier) -> bool:
    """The same answers from the same pictures."""
    kept = [(of.model_.exemplars.images, of.model_.held_out.images) for of in (one, other)]
    return np.array_equal(one.predict_proba(PROBE), other.predict_proba(PROBE)) and all(
        np.array_equal(a, b) for a, b in zip(*kept, strict=True)
    )


@pytest.mark.parametrize("tries", [60, pytest.param(3000, marks=pytest.mark.soak)])
def test_a_bit_that_turned_is_found_or_harmless(original, folder, tries):
    draw, whole = random.Random(1), IncrementalClassifier.load(original, verbose=False)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    harmless = 0
    for _ in range(tries):
        path = draw.choice(files)
        data = path.read_bytes()
        bit = draw.randrange(8 * len(data))
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            if not check_folder(folder).damaged:
                harmless += 1
                assert same(IncrementalClassifier.load(folder, verbose=False), whole), f"bit {bit} of {path}"
        except FolderError as error:  # the manifest of another format, or of none
            assert path.name == "manifest.json", error
        path.write_bytes(data)
    assert harmless < tries / 4  # a picture of 140 bytes has many that are no pixels
    assert check_folder(folder).damaged == ()


def test_a_change_that_ends_meanwhile_is_no_damage(folder, monkeypatch):
    from scail.classifier.folder import checkup

    real, done = checkup.read_png, list[int]()

    def meanwhile(root, name, shape):
        if not done:
            done.append(1)
            learn_into(folder, *little_images("d"), say=lambda text: None)
            shutil.rmtree(folder / "held-out")
            raise FileNotFoundError(2, "gone", name)
        return real(root, name, shape)

    monkeypatch.setattr(checkup, "read_png", meanwhile)
    monkeypatch.setattr(shutil, "rmtree", lambda *_: None)
    assert check_folder(folder).damaged == () and done


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def test_the_command_tells_what_was_read_what_is_damaged_and_what_to_do(folder, capsys, tmp_path):
    code, out, _ = call(capsys, "info", folder, "--verify")
    assert code == 0 and ": 0 damaged" in out and "pictures" in out and "files of numbers" in out
    picture = next((folder / "exemplars").glob("*/*.png"))
    picture.unlink()
    (folder / "notes\x1b[2J.txt").write_text("mine")
    code, out, _ = call(capsys, "info", folder, "--verify")
    assert code == 1 and f"damaged: {picture}: is missing; restore it from a copy" in out and "scail forget" in out
    assert "1 files that are not the model's, and are left alone" in out and "\x1b" not in out
    code, out, _ = call(capsys, "info", folder, "--verify", "--json")
    told = json.loads(out)
    assert code == 1 and str(picture) in told["damaged"][0] and told["counts"]["pictures"] > 5
    os.truncate(folder / "manifest.json", 100)
    code, out, _ = call(capsys, "info", folder, "--verify")
    assert code == 1 and "manifest.json" in out and ": 1 damaged" in out
    code, _, err = call(capsys, "info", tmp_path, "--verify")
    assert code == 2 and "there is no model here" in err
