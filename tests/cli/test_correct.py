"""`scail undo`, `relabel`, `rename`, `forget --images`, and names and folders as people give them."""

from __future__ import annotations

import json

from tests.cli.test_learn import QUICK, model, run, write_images

__all__ = ["model", "run"]  # fixtures


def test_a_model_is_put_right_on_the_command_line(model, run, tmp_path):
    first = tmp_path / "first"
    before = run("predict", model, first)[1]
    more = write_images(tmp_path / "more", "cat", seed=1)
    assert run("learn", model, more)[0] == 0
    code, said, _ = run("undo", model)
    assert code == 0 and "the last learn is taken back: 5 image(s), and the classes cat" in said
    assert [line.split()[1] for line in run("predict", model, first)[1].splitlines()] == [
        line.split()[1] for line in before.splitlines()
    ]
    code, said, _ = run("rename", model, "bee", "wasp")
    assert code == 0 and "'bee' is now 'wasp'" in said
    code, said, _ = run("relabel", model, first / "ant" / "0.png", "--to", "wasp")
    assert code == 0 and "1 picture(s) moved from ant to wasp" in said
    code, said, _ = run("forget", model, "wasp", "--images", first / "ant" / "0.png")
    assert code == 0 and "1 picture(s) of 'wasp' are forgotten" in said and "traces" in said
    info = json.loads(run("info", model, "--json")[1])
    assert info["states"] == {"0": ["ant", "wasp"]} and info["exemplars_per_class"] == {"ant": 3, "wasp": 4}
    code, _, error = run("undo", model)
    assert code == 2 and "nothing of what is forgotten is kept" in error
    told = run("info", model)[1]
    assert "a class was renamed to wasp" in told and "1 picture(s) moved to wasp" in told
    assert run("forget", model, "wasp")[0] == 0
    told = run("info", model)[1]
    assert "wasp" not in told and "a class was renamed, since forgotten" in told
    for words in (("rename", model, "ox", "cow"), ("relabel", model, more, "--to", "ant"), ("undo", tmp_path / "no")):
        code, _, error = run(*words)
        assert code == 2 and "Traceback" not in error


def test_names_with_commas_and_leading_dashes(run, tmp_path):
    data, model = write_images(tmp_path / "data", "Smith, John", "-x", "ant"), tmp_path / "m"
    assert run("learn", model, data, "--classes", "Smith, John,ant", *QUICK)[0] == 0
    assert run("learn", model, data, "--classes", "-x")[0] == 0
    assert run("rename", model, "-x", "-y")[0] == 0
    assert run("relabel", model, data / "ant" / "10.png", "--to", "-y")[0] == 0
    info = json.loads(run("info", model, "--json")[1])
    assert info["states"]["1"] == ["-y"] and info["exemplars_per_class"]["-y"] == 5
    code, _, error = run("forget", model, "--y")
    assert code == 2 and error.rstrip().endswith("if --y is a name, it stands behind --, as -- --y")  # it has no --to
    code, _, error = run("relabel", model, data / "ant" / "10.png", "--to", "--z")
    assert code == 2 and "if --z is a name, it stands behind --, as -- --z, or =: --to=--z" in error
    assert run("rename", model, "--", "-y", "--y")[0] == 0
    assert run("forget", model, "--", "--y")[0] == 0
    code, _, error = run("learn", model, data, "--classes", "ant,Smith")
    assert code == 2 and "has no class 'Smith'" in error


def test_a_short_option_is_named_as_it_was_given(run, tmp_path):
    for words in (("learn", tmp_path, tmp_path, "-v"), ("learn", tmp_path, "--broken", "-v")):
        code, _, error = run(*words)
        assert code == 2 and " -v" in error.replace("'", " ") and "\ue000" not in error and "is a name" not in error


def test_a_mistyped_folder_is_a_missing_folder(run, tmp_path, monkeypatch):
    write_images(tmp_path / "photos", "ant")
    monkeypatch.chdir(tmp_path)
    for name, said in (
        ("photoz", "there is no such folder or list file here, and no data set of this name; did you mean photos?"),
        ("./phtos", "./phtos: there is no such folder or list file; did you mean photos?"),
        ("nowhere/at/all", "there is no such folder or list file: no nowhere"),
        ("cifar10", "did you mean cifar100?"),
    ):
        code, _, error = run("learn", "m", name)
        assert code == 2 and said in error and "unknown data set" not in error
    assert not (tmp_path / "m").exists()


def test_a_failed_first_learn_leaves_no_folder(run, tmp_path):
    data = write_images(tmp_path / "data", "ant")
    for options in (("--validation", "3"), ("--backbone", "resnet99"), ("--method", "deesil", "--memory", "0")):
        code, _, error = run("learn", tmp_path / "a" / "b", data, *options, "--image-size", "8")
        assert code == 2 and "Traceback" not in error
        assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    assert run("learn", tmp_path / "a" / "b", data, "--validation", "3")[0] == 2
    assert not (tmp_path / "a" / "b").exists() and (tmp_path / "a").exists()
