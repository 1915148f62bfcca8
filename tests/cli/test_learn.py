"""The command line of a classifier that keeps learning."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from scail.classifier.folder import look
from scail.cli.main import main
from tests.classifier.little import little, little_images

QUICK = ("--epochs", "1", "--image-size", "8", "--memory", "12")


@pytest.fixture
def run(capsys):
    """Run a command; gives its exit code, output and errors."""

    def command(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return command


def write_images(root, *classes, each=5, seed=0):
    """A folder with a sub-folder of pictures per class."""
    images, labels = little_images(*classes, each=each, seed=seed)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        (root / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / label / f"{i}.png")
    return root


@pytest.fixture
def model(tmp_path, run):
    """A model that has learned two classes."""
    write_images(tmp_path / "first", "ant", "bee")
    code, said, _ = run("learn", tmp_path / "m", tmp_path / "first", *QUICK)
    assert code == 0
    assert "network: resnet8, for small images (8 pixels), 10 of them, on a CPU" in said
    assert "up to 1 epochs of 10 images: up to" in said
    assert "2 classes in 1 state(s), 10 of at most 12 images kept" in said
    return tmp_path / "m"


def test_learn_extends_and_info_and_evaluate_tell(model, run, tmp_path):
    more = write_images(tmp_path / "more", "cat", "ant", seed=1)
    code, said, _ = run("learn", model, more)
    assert code == 0 and "5 more images of 1 known class(es), ant: trained on now" in said
    assert "iCaRL^duet learns to say of these images what it said before, whatever their label; what reads" in said
    code, said, _ = run("info", model)
    assert code == 0 and "state 0: ant, bee\nstate 1: cat" in said and "method icarl_duet, herding exemplars" in said
    info = json.loads(run("info", model, "--json")[1])
    assert (info["classes"], info["memory"], info["exemplars"], info["top1"]) == (3, 12, 12, None)
    assert info["states"] == {"0": ["ant", "bee"], "1": ["cat"]} and len(info["history"]) == 2
    test = write_images(tmp_path / "test", "ant", "bee", "cat", seed=2)
    found = json.loads(run("evaluate", model, test, "--json")[1])
    assert {"top1", "top5", "classes", "memory", "exemplars"} <= found.keys()
    assert found["images"] == 15 and found["top5"] == 100 and found["classes"] == 3
    code, said, _ = run("evaluate", model, test)
    assert f"15 images: top-1 {found['top1']:.1f} %, top-5 100.0 % (3 classes" in said
    assert json.loads(run("evaluate", model, test, "--json", "--method", "ft_distill")[1])["method"] == "ft_distill"
    strange = write_images(tmp_path / "strange", "dog", "ant", seed=2)
    (strange / "ant" / "bad.png").write_bytes(b"no image")
    code, said, error = run("evaluate", model, strange)
    assert code == 0 and "5 images of 1 class(es) that the model never learned" in said
    assert "dog: 5 images, taken for " in said and "1 image(s) could not be read, and are not counted" in said
    assert "1 of 11 images cannot be read and are left out, the first: " in error and "bad.png" in error
    found = json.loads(run("evaluate", model, strange, "--json", "--unknown")[1])
    assert found["broken"] == 1 and found["images"] == 5 and found["never_learned"]["dog"]["images"] == 5
    right = found["by_class"]["ant"]["right"]
    assert right + sum(one["images"] for one in found["confusions"]) == 5
    assert run("evaluate", model, tmp_path / "test", "--classes", "ant,cat", "--json")[0] == 0


def test_predict_in_every_form(model, run, tmp_path, monkeypatch):
    folder = tmp_path / "first"
    one = folder / "ant" / "0.png"
    code, said, _ = run("predict", model, one)
    assert code == 0 and said.startswith(f"{one}\t") and said.endswith(" %\n") and len(said.splitlines()) == 1
    code, said, _ = run("predict", model, folder, "--top", "2", "--json")
    lines = [json.loads(line) for line in said.splitlines()]
    assert len(lines) == 10 and all(len(line["top"]) == 2 for line in lines)
    for line in lines:
        assert sum(best["probability"] for best in line["top"]) == pytest.approx(1, abs=1e-5)
    code, said, _ = run("predict", model, folder / "ant", folder / "bee" / "5.png", "--top", "5", "--csv")
    rows = list(csv.DictReader(io.StringIO(said)))
    assert len(rows) == 12 and rows[0].keys() == {"path", "rank", "class", "probability"}
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{one}\n\n{folder / 'bee'}\n"))
    assert len(run("predict", model)[1].splitlines()) == 6
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{one}\n"))
    assert run("predict", model, "-")[1] == run("predict", model, one)[1]


def test_predict_names_what_it_cannot_read_and_goes_on(model, run, tmp_path, monkeypatch):
    (tmp_path / "broken.png").write_bytes(b"no image")
    one = tmp_path / "first" / "ant" / "0.png"
    code, said, error = run("predict", model, tmp_path / "broken.png", one, tmp_path / "nosuch.jpg")
    assert code == 2 and len(said.splitlines()) == 1 and said.startswith(str(one))
    assert "broken.png: cannot be read as an image" in error and "nosuch.jpg: no such image" in error
    assert "2 of 3 images could not be read; the others are classified" in error
    error = run("predict", model, tmp_path / "broken.png")[2]
    assert "1 of 1 images could not be read\n" in error
    (tmp_path / "empty").mkdir()
    for words, message in (
        ((one, "--json", "--csv"), "give one of them"),
        ((one, "--top", "0"), "--top 0: expected 1 or more"),
        ((tmp_path / "empty",), "no images in this folder"),
        ((one, "--method", "scail"), "without training these can be used: icarl, ft_distill, icarl_duet"),
    ):
        code, _, error = run("predict", model, *words)
        assert code == 2 and message in error
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert "standard input has no paths" in run("predict", model)[2]
    assert "there is no model here" in run("predict", tmp_path / "first", one)[2]


def test_unknown_needs_a_model_that_can_tell(run, tmp_path):
    """One picture of a class says nothing of how they vary."""
    for name in ("ant", "bee"):
        (tmp_path / "single" / name).mkdir(parents=True)
        Image.new("RGB", (16, 16), (200, 10, ord(name[0]))).save(tmp_path / "single" / name / "0.png")
    assert run("learn", tmp_path / "shy", tmp_path / "single", "--method", "ft", "--epochs", 1)[0] == 0
    code, _, error = run("predict", tmp_path / "shy", tmp_path / "single" / "ant" / "0.png", "--unknown")
    assert code == 2 and "cannot tell the unknown from the known" in error


def test_predict_and_python_agree(model, run, tmp_path):
    from scail import IncrementalClassifier

    paths = sorted((tmp_path / "first").rglob("*.png"))
    clf = IncrementalClassifier.load(model)
    lines = [json.loads(line) for line in run("predict", model, *paths, "--json")[1].splitlines()]
    assert [line["top"][0]["class"] for line in lines] == clf.predict(paths).tolist()
    best = clf.predict_proba(paths).max(1)
    assert np.allclose([line["top"][0]["probability"] for line in lines], best, atol=1e-6)


def test_what_is_fixed_cannot_be_changed_but_the_head_can(model, run, tmp_path):
    more = write_images(tmp_path / "more", "cat")
    for words in (("--seed", "3"), ("--image-size", "16"), ("--backbone", "resnet20")):
        code, _, error = run("learn", model, more, *words)
        assert code == 2 and "and this cannot be changed; leave the option out" in error
    assert "this cannot be changed" in run("learn", model, more, "--no-mirror")[2]
    assert "only a first learn takes it" in run("learn", model, more, "--recipe", "quick")[2]
    assert "without training these can" in run("learn", model, more, "--method", "bic")[2]
    assert json.loads(run("info", model, "--json")[1])["calls"] == 1  # nothing happened
    assert run("learn", model, more, *QUICK, "--method", "ft_distill")[0] == 0  # the same values may be given
    assert json.loads(run("info", model, "--json")[1])["method"] == "ft_distill"


def test_bad_input_is_a_clear_error_and_changes_nothing(model, run, tmp_path):
    flat = tmp_path / "flat"
    write_images(tmp_path / "x", "cat")
    (tmp_path / "x" / "cat").rename(flat)
    broken = write_images(tmp_path / "broken", "cat")
    (broken / "cat" / "bad.png").write_bytes(b"no image")
    for words, message in (
        ((flat,), "images without labels cannot be learned; put them into one folder per class"),
        ((tmp_path / "nosuch",), "there is no such folder or list file"),
        ((broken,), "bad.png: cannot be read as an image"),
        ((broken, "--epochs", "many"), "--epochs many: expected E, or E0,E"),
        ((tmp_path / "first", "--classes", "dog"), "has no class 'dog'; it has ant, bee"),
    ):
        code, _, error = run("learn", model, *words)
        assert code == 2 and message in error and "Traceback" not in error
    assert json.loads(run("info", model, "--json")[1])["calls"] == 1
    assert run("learn", model, broken, "--broken", "skip")[0] == 0
    code, _, error = run("learn", tmp_path / "new", tmp_path / "first", "--method", "full")
    assert code == 2 and "cannot keep learning" in error
    assert run("learn", tmp_path / "new", tmp_path / "nosuch")[0] == 2
    assert not (tmp_path / "new").exists()


def test_info_shows_what_the_last_learn_did_to_past_classes(run, tmp_path, monkeypatch):
    data, root = write_images(tmp_path / "first", "ant", "bee", each=10), tmp_path / "m"
    assert (
        run("learn", root, data, "--validation", "0.2", "--epochs", "1", "--image-size", "8", "--memory", "20")[0] == 0
    )
    code, said, _ = run("info", root)
    assert code == 0 and "no class was known before its last learn" in said
    assert json.loads(run("info", root, "--json")[1])["last_learn"] is None
    run("learn", root, write_images(tmp_path / "more", "cat", each=10))
    code, said, _ = run("info", root)
    assert code == 0 and "2 past classes, 4 held-out images: top-1" in said and "cat: " not in said
    info = json.loads(run("info", root, "--json")[1])
    found = info["last_learn"]
    assert found["images"] == 4 and set(found["classes"]) == {"ant", "bee"}
    assert "with 95 % certainty a change between" in said
    for name in found["classes"]:  # two images a class are noise
        assert f"{name}: " not in said
    assert info["held_out"] + info["exemplars"] <= 20 and info["top1"] is not None
    pictures = list(root.rglob("*.png"))
    assert len(pictures) == info["held_out"] + info["exemplars"]
    # The same with many classes: those that changed, the worst first, and not too many of them.
    counts = {f"class {n}": [10, 9, n] for n in range(9)} | {"same": [10, 5, 5], "few": [2, 2, 0]}
    seen = look(root)
    many = replace(seen.manifest, difference=counts | {"better": [10, 1, 2], "best": [10, 0, 10]})
    monkeypatch.setattr("scail.classifier.folder.look", lambda _: replace(seen, manifest=many))
    lines = run("info", root)[1].splitlines()
    at = lines.index(
        "13 past classes, 122 held-out images: top-1 73.0 % before the last learn, 43.4 % after it; with 95 % "
        "certainty a change between -40.5 and -17.2 points"
    )
    assert lines[at + 1 : at + 5] == [
        "5 of its classes changed by no more than chance can do, on so few images",
        "  -2  few: 2 of 2 right before, 0 after",
        "  -9  class 0: 9 of 10 right before, 0 after",
        "  -8  class 1: 9 of 10 right before, 1 after",
    ]
    assert lines[at + 7 : at + 10] == [
        "  -5  class 4: 9 of 10 right before, 4 after",
        " +10  best: 0 of 10 right before, 10 after",
        "state 0: ant, bee",
    ]
    found = json.loads(run("info", root, "--json")[1])["last_learn"]
    low, high = found["classes"]["few"].pop("interval")
    assert low == -100 and -8 < high < 0
    assert found["classes"]["few"] == {"images": 2, "before": 2, "after": 0} and len(found["classes"]) == 13
    assert found["top1_before"] == pytest.approx(100 * 89 / 122)


def test_info_without_held_out_images_says_what_to_do(model, run):
    code, said, _ = run("info", model)
    assert code == 0 and "no images are held out; begin the model with learn --validation 0.1" in said
    assert json.loads(run("info", model, "--json")[1])["last_learn"] is None


def test_labels_that_are_whole_numbers_are_so_in_all_json(run, tmp_path):
    images, _ = little_images("a", "b", each=4)
    root = tmp_path / "m"
    little(memory=8, image_size=8).learn(images, [3] * 4 + [12] * 4).learn(images[:2] // 2, [3, 3]).save(root)
    info = json.loads(run("info", root, "--json")[1])
    assert info["states"] == {"0": [3, 12]} and info["history"][1]["more"] == [3]
    assert "state 0: 3, 12" in run("info", root)[1]
    data = write_images(tmp_path / "data", "3", "12", "new")
    found = json.loads(run("evaluate", root, data, "--json")[1])
    assert found["by_class"].keys() == {"3", "12"} and found["never_learned"].keys() == {"new"}
    assert all({one["class"], one["said"]} == {3, 12} for one in found["confusions"]) and found["confusions"]
    assert json.loads(run("predict", root, data / "3" / "0.png", "--json")[1])["top"][0]["class"] in (3, 12)


def test_forget_says_what_stays(model, run):
    code, said, _ = run("forget", model, "bee")
    assert code == 0 and "'bee' is forgotten" in said and "carry traces of it until" in said
    assert json.loads(run("info", model, "--json")[1])["states"] == {"0": ["ant"]}
    code, _, error = run("forget", model, "bee")
    assert code == 2 and "'bee' is not known; known are 'ant'" in error


def test_export(model, run, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    code, said, _ = run("export", model, "--onnx", tmp_path / "m.onnx")
    assert code == 0 and (tmp_path / "m.onnx").is_file() and "2 classes, method icarl_duet" in said


def test_data_sets_by_name_can_be_learned_class_by_class(run, tmp_path):
    root = tmp_path / "m"
    assert run("learn", root, "digits", "--classes", "3,1", "--epochs", "1", "--memory", "10")[0] == 0
    assert run("learn", root, "digits", "--classes", "7")[0] == 0
    info = json.loads(run("info", root, "--json")[1])
    assert info["states"] == {"0": ["1", "3"], "1": ["7"]} and info["shape"] == [1, 8, 8]
    assert run("evaluate", root, "digits", "--classes", "1,3,7")[0] == 0  # its own test images
    from scail import IncrementalClassifier

    assert IncrementalClassifier.load(root).model_.settings.mirror is False  # digits say so themselves


def test_a_list_file_and_a_folder_with_its_own_test_images(run, tmp_path):
    write_images(tmp_path / "d" / "train", "ant", "bee")
    write_images(tmp_path / "d" / "test", "ant", "bee", each=2, seed=3)
    assert run("learn", tmp_path / "m", tmp_path / "d", *QUICK)[0] == 0
    assert json.loads(run("evaluate", tmp_path / "m", tmp_path / "d", "--json")[1])["images"] == 4
    lines = [f"d/train/ant/{i}.png cow" for i in range(3)]
    (tmp_path / "images.lst").write_text("\n".join(lines))
    assert run("learn", tmp_path / "m", tmp_path / "images.lst")[0] == 0
    assert json.loads(run("info", tmp_path / "m", "--json")[1])["states"]["1"] == ["cow"]


def test_the_commands_import_nothing_heavy():
    code = (
        "import sys; from importlib import import_module; from scail.cli.main import COMMANDS\n"
        "for command in COMMANDS.values(): import_module(command.place.partition(':')[0])\n"
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'PIL', 'onnx')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
