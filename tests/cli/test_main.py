"""The command line as a user types it, at tiny size: good and bad input."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import scail as package
from scail.benchmark.trajectory import trajectories_in
from scail.cli.main import COMMANDS, command_of, main
from scail.cli.parsing import parse
from scail.config.options import RunOptions, experiment_of

TINY = ["run", "--dataset", "digits", "--classes", "6", "--images-per-class", "20", "--states", "3", "--epochs", "1"]


def scail(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scail", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    """The same in this process: quicker, for what ends early."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("cli")
    done = scail(*TINY, "--memory", 12, "--out", place / "run", "--store", place / "store")
    assert done.returncode == 0, done.stderr
    return place, done


def test_a_run_prints_the_table_and_says_where_the_files_are(run):
    place, done = run
    for text in ("FT^NEM", "FT_init^L2", "ScaIL", "Full", "G_IL", "top-5", "top-1", "state 0 excluded", str(place)):
        assert text in done.stdout
    assert "state 0: training" in done.stdout and f"Report: {place / 'run' / 'report.html'}" in done.stdout
    assert "\x1b" not in done.stdout  # plain lines without a terminal
    assert not done.stderr


def test_the_run_directory_holds_everything(run):
    place, _ = run
    folder = place / "run"
    config = json.loads((folder / "config.json").read_text())
    assert config["experiment"]["dataset"] == "digits" and config["memory"] == 12
    assert len(config["class_order"]) == 6 and config["state_sizes"] == [2, 2, 2]
    assert config["network"]["feature_size"] == 64 and config["network"]["flops"] > 0
    summary = json.loads((folder / "summary.json").read_text())
    from scail.methods import METHODS

    found = {(m["method"], m["select"]) for m in summary["methods"]}
    assert {name for name, _ in found} == set(METHODS) - {"full"}
    assert {(name, s) for name in ("ft", "scail", "ft_wa") for s in ("random", "herding")} <= found
    for method in summary["methods"]:
        assert method["memory"] == (0 if method["select"] is None else 12)
        assert [s["state"] for s in method["per_state"]] == [0, 1, 2]
        assert [s["classes"] for s in method["per_state"]] == [2, 4, 6]
        for name in ("top1", "top5"):  # the headline leaves state 0 out
            assert method[name] == pytest.approx(np.mean([s[name] for s in method["per_state"][1:]]))
    assert summary["full"].keys() == {"top1", "top5", "cost"}
    assert summary["trained_epochs"] > 10 and summary["world_size"] == 1 and summary["exemplars"] == 12
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert len(rows) == 3 * len(found) + 1
    for row in rows:
        for name in ("scail", "torch", "device", "class_order_hash", "averaging", "dataset_fingerprint"):
            assert row["provenance"][name]
    assert (folder / "table.md").read_text().split("\n## ")[0].count("\n|") == 1 + len(METHODS)
    for name in ("accuracy", "errors", "origins", "scores", "weights"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    memory = [json.loads(line) for line in (folder / "memory.jsonl").read_text().splitlines()]
    kept = [record["kept"] for record in memory if (record["trainer"], record["select"]) == ("fine_tune", "herding")]
    assert kept == [[[6, 2]], [[3, 4]], [[2, 6]]]
    assert all((folder / record["sheet"]["file"]).read_bytes().startswith(b"\x89PNG") for record in memory)
    timing = [json.loads(line) for line in (folder / "timing.jsonl").read_text().splitlines()]
    assert sum(record["trained_epochs"] for record in timing) == summary["trained_epochs"]
    assert all(record["seconds"] > 0 and record["evaluation"] > 0 for record in timing)
    with np.load(folder / "confusion" / "scail-herding.npz") as matrices:
        correct = 100 * np.trace(matrices["state_2"]) / matrices["state_2"].sum()
        assert matrices["state_0"].shape == (2, 2)
    scail_row = next(m for m in summary["methods"] if (m["method"], m["select"]) == ("scail", "herding"))
    assert correct == pytest.approx(scail_row["per_state"][2]["top1"])


def test_seeds_give_means_and_spreads(run, tmp_path, capsys):
    place, _ = run
    options = (*TINY, "--memory", 12, "--methods", "ft,full", "--select", "random", "--seeds", 2, "--jobs", 1)
    code, out, _ = call(capsys, *options, "--out", tmp_path / "run", "--store", place / "store")
    assert code == 0 and "±" in out and "2 seeds" in out
    assert "seeds 1, 2" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    together = json.loads((tmp_path / "run" / "summary.json").read_text())
    each = [json.loads((tmp_path / "run" / f"seed-{s}" / "summary.json").read_text()) for s in (1, 2)]
    values = [summary["methods"][0]["top1"] for summary in each]
    assert values[0] != values[1]
    assert together["methods"][0]["top1"] == pytest.approx(np.mean(values))
    assert together["methods"][0]["top1_std"] == pytest.approx(np.std(values, ddof=1))
    assert together["full"]["top5"] == pytest.approx(np.mean([summary["full"]["top5"] for summary in each]))


def test_without_memory_the_rest_runs_and_a_note_says_what_is_left_out(run, tmp_path, capsys):
    options = (*TINY, "--memory", 0, "--jobs", 1, "--out", tmp_path / "run", "--store", run[0] / "store")
    code, out, _ = call(capsys, *options)
    assert code == 0 and "note: FT^NEM is left out" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    found = {(m["method"], m["select"]) for m in summary["methods"]}
    assert {(name, None) for name in ("ft", "ft_l2", "ft_init", "ft_init_l2", "scail", "lwf", "ft_nomem")} <= found
    assert not {name for name, _ in found} & {"ft_nem", "icarl", "bic", "ft_bal", "e2e"}
    assert {select for _, select in found} == {None}
    assert summary["exemplars"] == 0


@pytest.mark.usefixtures("undrawn")
def test_candidates_and_the_published_reading_need_no_training(run, tmp_path, capsys):
    base = (*TINY, "--memory", 12, "--methods", "scail", "--jobs", 1, "--store", run[0] / "store")
    found = {}
    for name, options in {"paper": (), "few": ("--candidates", 1), "published": ("--as-published",)}.items():
        code, _, _ = call(capsys, *base, *options, "--out", tmp_path / name)
        assert code == 0
        assert json.loads((tmp_path / name / "summary.json").read_text())["trained_epochs"] == 0
        rows = [json.loads(line) for line in (tmp_path / name / "results.jsonl").read_text().splitlines()]
        found[name] = [(row["top1"], row["scores"]) for row in rows]
    assert found["paper"] != found["few"] and found["paper"] != found["published"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--dataset", "cats"], "cats: there is no such folder or list file here, and no data set of this name"),
        (["--states", "7"], "7 states for 6 classes"),
        (["--states", "1"], "at least 2"),
        (["--states", "many"], "--states many: expected a number"),
        (["--states", "3,2"], "add up to 6"),
        (["--first-state", "6"], "at least one new class"),
        (["--first-state", "most"], "--first-state most"),
        (["--memory", "-1"], "memory is -1"),
        (["--memory", "lots"], "memory 'lots': expected a number of images, a share as 2%"),
        (["--memory", "200%"], "memory is 200%: more than all 120 training images"),
        (["--memory", "-5%"], "memory is -5%, expected 0 or more"),
        (["--memory", "x/class"], "memory 'x/class': expected"),
        (["--memory", "-2/class"], "memory is -2/class, expected 0 or more"),
        (["--memory", "4 parsecs"], "memory '4 parsecs': expected"),
        (["--memory", "x%"], "memory 'x%'"),
        (["--methods", "ft,magic"], "unknown method magic; known: all, ft"),
        (["--methods", ","], "unknown method"),
        (["--methods", "ft_nem", "--memory", "0"], "needs exemplars"),
        (["--epochs", "0"], "epochs is 0"),
        (["--epochs", "1,2,3"], "expected E, or E0,E"),
        (["--lr", "-1"], "lr -1.0"),
        (["--schedule", "latter.lr=1"], "--schedule latter.lr=1: expected NAME.WHAT=N, as distill.lr=2"),
        (["--schedule", "later.lr=1", "--schedule=later.epochs=2"], "--schedule is given twice"),
        (["--schedule", "later.rate=1"], "expected one of epochs, lr"),
        (["--schedule", "later.lr=fast"], "expected a number after ="),
        (["--schedule", "later.epochs=1.5"], "expected a whole number after ="),
        (["--schedule", "later.lr=nan"], "lr nan"),
        (["--schedule", "later.momentum=1"], "momentum 1.0"),
        (["--schedule", "later.patience=-1"], "patience -1"),
        (["--schedule", "later.divide_by_state=perhaps"], "expected yes or no after ="),
        (["--schedule", "later.decay=slow"], "expected one of plateau, steps, cosine, settle after ="),
        (["--schedule", "later.milestones=3+x"], "expected epochs with a plus between, as 30+60 after ="),
        (["--schedule", "later.milestones=60+30"], "each above the one before"),
        (["--threads", "0"], "threads is 0"),
        (["--seeds", "0"], "seeds is 0"),
        (["--jobs", "0"], "jobs is 0"),
        (["--network", "resnet9000"], "unknown network 'resnet9000'"),
        (["--candidates", "0"], "--candidates 0"),
        (["--candidates", "5,6"], "--candidates 5,6"),
        (["--memory", "10,20"], "memory '10,20'"),
        (["--first-state", "4,1"], "--first-state 4,1"),
        (["--seed", "-1"], "seed is -1"),
        (["--states", "6", "--methods", "deesil"], "method deesil: in state 0 only one class"),
        (["--accelerator", "mps"], "accelerator mps"),
        (["--order", "nowhere.txt"], "--order nowhere.txt"),
        (["--image-size", "30"], "digits has its own"),
        (["--classes", "60"], "classes is 60"),
    ],
)
def test_bad_input_is_a_clear_error_and_leaves_nothing_behind(capsys, tmp_path, options, expected):
    code, out, err = call(capsys, *TINY, *options, "--out", tmp_path / "run", "--store", tmp_path / "store")
    assert code == 2
    assert err.startswith("scail: error: ") and expected in err
    assert "Traceback" not in out + err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_other_things_is_left_alone(capsys, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    code, _, err = call(capsys, *TINY, "--out", tmp_path, "--store", tmp_path / "s" / "store")
    assert code == 2 and "not a scail run" in err
    assert (tmp_path / "thesis.tex").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert "is a file" in call(capsys, *TINY, "--out", tmp_path / "file", "--store", tmp_path / "s" / "store")[2]


@pytest.mark.usefixtures("undrawn")
def test_two_runs_do_not_write_into_one_folder(capsys, tmp_path):
    from filelock import FileLock

    (tmp_path / "run").mkdir()
    options = (*TINY, "--methods", "ft", "--select", "random", "--jobs", 1, "--store", tmp_path / "store")
    with FileLock(tmp_path / "run" / ".lock"):
        code, _, err = call(capsys, *options, "--out", tmp_path / "run")
    assert code == 2 and "another run is writing there" in err
    assert call(capsys, *options, "--out", tmp_path / "run")[0] == 0


@pytest.mark.usefixtures("undrawn")
def test_a_folder_that_is_used_again_keeps_nothing_of_the_old_run(capsys, tmp_path):
    options = (*TINY, "--select", "random", "--jobs", 1, "--store", tmp_path / "store", "--out", tmp_path / "run")
    assert call(capsys, *options, "--methods", "ft,full", "--seeds", 3)[0] == 0
    assert call(capsys, *options, "--methods", "ft_l2", "--seeds", 2)[0] == 0
    assert sorted(p.name for p in (tmp_path / "run").glob("seed-*")) == ["seed-1", "seed-2"]
    files = {p.name for p in (tmp_path / "run" / "seed-1").rglob("*.npz")}
    assert files == {"ft_l2-random.npz"}


def test_runs_started_in_the_same_second_have_folders_of_their_own(tmp_path):
    from scail.benchmark.runner import _new_folder

    assert [_new_folder(tmp_path, "x").name for _ in range(3)] == ["x", "x-2", "x-3"]


def test_with_states_of_one_class_deesil_is_left_out_of_all_with_a_note(tmp_path):

    from scail.benchmark.configuration import settle
    from scail.config.recipes import quick

    setup = settle(quick("digits").but(states=10))
    assert any("DeeSIL is left out: in state 0 only one class" in note for note in setup.notes)
    assert "deesil" not in {method for one in trajectories_in(setup) for method in one.methods}


def test_a_memory_that_comes_to_nothing_or_to_too_little_says_what_to_do(tmp_path):
    from scail.benchmark.configuration import settle
    from scail.benchmark.grid import settle_grid
    from scail.benchmark.grid_file import file_grid
    from scail.config.recipes import quick

    tiny = quick("digits").but(classes=6, states=3, images_per_class=6)
    told = (
        "a memory of 2% comes to no image here (36 training images): nothing is kept. A memory of 6 keeps one of each"
    )
    assert any(note.startswith(told) for note in settle(tiny).notes)
    assert not any("A memory of 6" in note for note in settle(tiny.but(memory=0)).notes)
    assert any(
        "the earliest 3 keep one. A memory of 6 keeps one of each" in n for n in settle(tiny.but(memory=3)).notes
    )
    (tmp_path / "tiny.yaml").write_text("dataset: digits\nclasses: 6\nstates: 3\nimages-per-class: 6\nmethods: ft\n")
    assert any(note.startswith(told) for note in settle_grid(file_grid(tmp_path / "tiny.yaml", {}), tmp_path).notes)


@pytest.mark.usefixtures("undrawn")
def test_lines_are_strict_json_even_where_classes_have_no_exemplars(capsys, tmp_path):
    options = (*TINY, "--methods", "ft_nem", "--memory", 3, "--select", "random", "--jobs", 1)
    assert call(capsys, *options, "--out", tmp_path / "run", "--store", tmp_path / "store")[0] == 0
    text = (tmp_path / "run" / "results.jsonl").read_text()
    assert "Infinity" not in text and "NaN" not in text


@pytest.mark.usefixtures("undrawn")
def test_an_order_file_that_is_no_text_or_has_a_byte_order_mark(capsys, tmp_path):
    order = tmp_path / "order"
    order.write_bytes(b"\xff\xfe\x00\x80")
    options = (*TINY, "--methods", "ft", "--select", "random", "--jobs", 1, "--order", order, "--store", tmp_path / "s")
    assert "not a text file" in call(capsys, *options, "--out", tmp_path / "a")[2]
    order.write_text("\ufeff5\n4\n3\n2\n1\n0\n", encoding="utf-8")
    assert call(capsys, *options, "--out", tmp_path / "b")[0] == 0


@pytest.mark.soak
def test_a_training_that_diverges_names_state_epoch_and_rate(capfd, tmp_path):
    options = (*TINY, "--memory", 12, "--methods", "ft", "--jobs", 2, "--lr", "1e30")  # in one of two processes
    code, _, err = call(capfd, *options, "--out", tmp_path / "run", "--store", tmp_path / "store")
    assert code == 2
    assert "state 0, epoch 1 of 1: the loss is nan at learning rate 5e+29" in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("undrawn")
def test_an_order_from_a_file(capsys, run, tmp_path):
    order = tmp_path / "order.txt"
    order.write_text("5\n4\n3\n2\n1\n0\n")
    options = (*TINY, "--order", order, "--methods", "ft", "--select", "random", "--jobs", 1)
    code, _, _ = call(capsys, *options, "--out", tmp_path / "run", "--store", tmp_path / "store")
    assert code == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["class_order"] == list("543210")
    order.write_text("5\n4\n")
    assert "4 class(es) missing" in call(capsys, *options, "--out", tmp_path / "x", "--store", tmp_path / "store")[2]


def test_options_reach_the_configuration():
    experiment = experiment_of(
        RunOptions(
            states="50,25,25", memory="1%", methods="ft, scail", select="herding", recipe="paper", epochs="7,3",
            lr=0.2, batch_size=9, network="resnet20", candidates="all", keep_past_rows=True, seed=5, threads=2,
        )
    )  # fmt: skip
    assert experiment.stream.states == (50, 25, 25) and experiment.exemplars.memory == "1%"
    assert experiment.methods == ("ft", "scail") and experiment.exemplars.select == ("herding",)
    schedules = experiment.recipe.schedules
    assert (schedules["first"].epochs, schedules["later"].epochs) == (7, 3)
    assert schedules["first"].lr == schedules["later"].lr == 0.2
    numbers = "later.lr=0.05, distill.epochs=9,bic-correction.lr=1,first.divide_by=2.5"
    one = experiment_of(RunOptions(lr=0.2, epochs="7,3", schedule=numbers))
    one = one.recipe.schedules
    assert (one["first"].lr, one["later"].lr, one["later"].epochs) == (0.2, 0.05, 3)
    assert (one["distill"].epochs, one["bic_correction"].lr, one["first"].divide_by) == (9, 1.0, 2.5)
    assert schedules["later"].batch_size == 9 and experiment.recipe.network == "resnet20"
    assert experiment.heads.candidates is None and experiment.recipe.keep_past_rows and experiment.seed == 5
    assert experiment.stream.class_order == "icarl" and experiment.machine.threads == 2


@pytest.mark.parametrize("words", [["store", "gc"], ["store", "verify"], ["store", "ls"]])
def test_the_help_of_a_commands_command_describes_it_once(capsys, words):
    code, out, _ = call(capsys, *words, "--help")
    first = next(line for line in out.splitlines() if line)
    assert code == 0 and not first.startswith("usage") and f"usage: scail {' '.join(words)}" in out
    assert " ".join(out.split()).count(" ".join(first.split())) == 1
    assert call(capsys, *words, "-h")[1] == out


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["store", "--help"], ["store", "gc", "--help"]])
def test_help_teaches(capsys, arguments):
    code, out, _ = call(capsys, *arguments)
    assert code == 0 and "usage: scail" in out


def test_the_overview_is_one_screen_with_every_command_in_its_group(capsys):
    code, out, _ = call(capsys, "--help")
    lines = out.splitlines()
    assert code == 0 and call(capsys, "-h")[1] == out and lines[-1].startswith("`scail COMMAND --help`")
    assert len(lines) < 24 and all(len(line) <= 80 for line in lines)  # and the prompt below it
    for name, command in COMMANDS.items():
        alone = [n for n, line in enumerate(lines) if line.split()[:1] == [name]]
        (at,) = alone or [
            n for n, line in enumerate(lines) if ":" in line and name in re.split("[, ]+", line.partition(":")[0])
        ]
        assert command.summary in lines[at]
        assert next(line for line in reversed(lines[:at]) if line.endswith(":")) == f"{command.group}:"
    code, out_alone, err = call(capsys)
    assert (code, out_alone, err) == (2, "", out)
    assert call(capsys, "help")[1] == out


def test_help_of_a_command_by_the_word_help(capsys):
    assert call(capsys, "help", "rename")[:2] == call(capsys, "rename", "--help")[:2]
    assert call(capsys, "help", "nonsense")[0] == 2
    assert "`scail --version` tells it" in call(capsys, "version")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_found_and_explains_itself(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    module, _, kind = COMMANDS[name].place.partition(":")
    command = getattr(import_module(module), kind)
    assert dataclasses.is_dataclass(command) and command.__dataclass_params__.frozen and "__call__" in vars(command)
    code, out, _ = call(capsys, name, "--help")
    assert code == 0 and f"usage: scail {name} " in out and "None" not in out
    assert out.splitlines()[0].split() == command.__doc__.split()[: len(out.splitlines()[0].split())]
    assert all(len(line) <= 80 for line in out.split("usage:")[0].splitlines())
    examples = [line for line in command.__doc__.splitlines() if line.startswith("      scail ")]
    assert all(f"\n{line[4:]}\n" in out for line in examples)
    for line in examples:
        _, said, *options = shlex.split(line, comments=True)
        assert callable(parse(said, command_of(said), options))


def test_the_version(capsys):
    assert call(capsys, "--version")[:2] == (0, f"scail {package.__version__}\n")


def test_help_imports_nothing_heavy():
    script = (
        "import sys; sys.argv = ['scail', '--help']\ntry:\n import scail.cli.main; scail.cli.main.main()\nfinally:\n "
        + ("print([m for m in ('torch', 'numpy', 'matplotlib', 'lightning_fabric', 'datasets') if m in sys.modules])")
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


@pytest.mark.parametrize("words", [["--help"], ["recipes"], ["store", "ls", "--help"]])
def test_only_the_module_of_the_command_is_imported(words):
    script = (
        f"import sys, scail.cli.main\ntry:\n scail.cli.main.main({words})\nfinally:\n "
        "print(sorted(m for m in sys.modules if m == 'tyro' or m.startswith('scail.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    own = {"recipes": ["reference"], "store": ["store", "verify"]}.get(words[0], [])
    expected = ["scail.cli.main"] + (
        ["scail.cli.parsing", *(f"scail.cli.{name}" for name in own), "tyro"] if own else []
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == str(expected), done.stdout + done.stderr


def test_listings(capsys):
    code, out, _ = call(capsys, "methods")
    assert code == 0 and all(name in out for name in ("ft_init_l2", "FT_init^L2", "threshold_moving", "scail", "full"))
    code, out, _ = call(capsys, "datasets")
    assert code == 0 and all(name in out for name in ("glyphs", "digits", "cifar100"))


def test_words_of_the_house_are_explained_or_left_out(capsys):
    from scail.methods import METHODS

    code, out, _ = call(capsys, "methods")
    assert code == 0 and "weights    of a class: its row in" in out and "herding (close to the class's mean)" in out
    said = {name: method.summary for name, method in METHODS.items()}
    inside = re.compile(r"\brows?\b|evidence|trajectory|shrunk|sigmoid|read off|the layer|training shares")
    assert {name: text for name, text in said.items() if inside.search(text)} == {}
    assert "SIW^mc" in said["duet"] and "FT^ridge" in said["duet"] and "many images in training" in said["prior"]
    for name in COMMANDS:
        text = call(capsys, name, "--help")[1]
        assert "reads the same training" not in text and "memory is reconsidered" not in text, name


def test_recipes_are_listed_and_printed_in_full(capsys):
    code, out, _ = call(capsys, "recipes")
    assert code == 0 and "quick" in out and "paper" in out
    names = [line.split()[0] for line in out.splitlines()]
    assert {line.index(line.split()[1]) for line in out.splitlines()} == {max(map(len, names)) + 2}  # one column
    code, out, _ = call(capsys, "recipes", "paper", "--dataset", "cifar100")
    assert code == 0 and json.loads(out)["first_schedule"]["epochs"] == 300
    code, _, err = call(capsys, "recipes", "secret")
    assert code == 2 and "unknown recipe 'secret'; known: quick, cifar100-cpu, paper" in err


def test_unknown_commands_and_options_are_errors(capsys):
    code, _, err = call(capsys, "fly")
    assert code == 2 and "unknown command 'fly'; known: run, grid" in err
    code, _, err = call(capsys, "evalute")
    assert code == 2 and "unknown command 'evalute'; did you mean `scail evaluate`?" in err
    code, _, err = call(capsys, "--dataset", "digits", "run")
    assert code == 2 and "--dataset: expected a command before options" in err
    code, _, err = call(capsys, "results", "kept", "--out", "document.md")
    assert code == 2 and "unknown command 'results'; `scail paper` does that now" in err
    assert "unknown command 'diff'; `scail info` does that now" in call(capsys, "diff", "model")[2]
    code, _, err = call(capsys, "run", "--flie", "1")
    assert code == 2 and "is a name" not in err
    assert "stands behind --dataset: scail run --dataset digits" in call(capsys, "run", "digits", "--states", "5")[2]
    assert call(capsys)[0] == 2


def test_a_reader_that_has_seen_enough_is_no_error():
    read, write = os.pipe()
    os.close(read)
    for words in (["--help"], ["run", "--help"], ["recipes"]):
        command = [sys.executable, "-m", "scail", *words]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (141, "")
    os.close(write)


@pytest.mark.usefixtures("undrawn")
class TestStore:
    """`scail store` on the store of a real run."""

    @pytest.fixture
    def store(self, run, tmp_path) -> Path:
        options = ("--memory", 12, "--methods", "ft,scail,full", "--jobs", 1, "--out", run[0] / "small")
        if not (run[0] / "small").exists():
            with pytest.raises(SystemExit):
                main([str(option) for option in (*TINY, *options, "--store", run[0] / "pristine")])
        return Path(shutil.copytree(run[0] / "pristine", tmp_path / "store"))

    def test_ls_shows_sizes_ages_and_what_depends_on_what(self, capsys, store):
        code, out, _ = call(capsys, "store", "ls", "--store", store)
        assert code == 0 and "fine_tune" in out and "joint" in out and "herding" in out and "ago" in out
        assert "6 states" in out  # state 0, Full, and states 1 and 2 of each selection

    def test_show_tells_what_a_state_was_made_from(self, capsys, store):
        key = min(path.name for path in (store / "states").iterdir())
        code, out, _ = call(capsys, "store", "show", key[:12], "--store", store)
        known = json.loads(out)
        assert code == 0 and known["key"] == key
        assert known["facts"]["made_from"]["seed"] == 1 and known["facts"]["losses"]

    def test_rm_takes_a_state_and_if_asked_what_builds_on_it(self, capsys, store):
        from scail.storage.store import Store

        keys = {(i.facts["state"], i.facts["classes"]): i.key for i in Store(store).listing()}
        first = keys[0, 2]
        assert "removed 1 states" in call(capsys, "store", "rm", keys[2, 6], "--store", store)[1]
        assert "removed 4 states" in call(capsys, "store", "rm", first, "--dependents", "--store", store)[1]
        assert [i.facts["classes"] for i in Store(store).listing()] == [6]  # Full is left
        assert call(capsys, "store", "rm", first, "--store", store)[0] == 2

    def test_gc_keeps_the_limit(self, capsys, store):
        code, out, _ = call(capsys, "store", "gc", "--limit", "500KB", "--store", store)
        assert code == 0 and "removed 5 states" in out
        assert call(capsys, "store", "gc", "--limit", "lots", "--store", store)[0] == 2

    def test_verify_names_what_is_damaged(self, capsys, store):
        assert call(capsys, "store", "verify", "--store", store)[0] == 0
        path = next((store / "states").glob("*/tensors.safetensors"))
        path.write_bytes(path.read_bytes()[:-1])
        code, out, _ = call(capsys, "store", "verify", "--store", store)
        assert code == 1 and str(path) in out and "6 states checked, 1 damaged" in out
        assert "to remove what is damaged: scail store verify --remove" in out
        assert call(capsys, "store", "verify", "--remove", "--store", store)[0] == 0
        assert "5 states checked, 0 damaged" in call(capsys, "store", "verify", "--store", store)[1]

    def test_verify_finds_states_that_were_exchanged(self, capsys, store):
        a, b, *_ = sorted((store / "states").iterdir())
        for source, target in ((a, store / "aside"), (b, a), (store / "aside", b)):
            source.rename(target)
        code, out, _ = call(capsys, "store", "verify", "--store", store)
        assert code == 1 and out.count("was renamed or exchanged") == 2 and "6 states checked, 2 damaged" in out

    def test_verify_reads_unfinished_trainings_and_copies_of_images_and_counts_what_was_left(
        self, capsys, store, tmp_path, monkeypatch
    ):
        from scail.storage.cache import cached_tensors
        from scail.storage.store import Store
        from tests.storage.stored import entry, key

        monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
        for name in "ab":
            Store(store).checkpoint(key(name)).stage("training").save(entry())
            cached_tensors(f"images-{name}", lambda: entry().tensors)
        (store / "states" / f".scail-{key('c')}.{'0' * 32}").mkdir()
        (store / "states" / "notes.txt").write_text("mine")
        listed = call(capsys, "store", "ls", "--store", store)[1]
        assert "2 unfinished trainings, " in listed and "1 half-written, " in listed
        assert f"not scail's, and left alone: 'notes.txt' in {store / 'states'}" in listed
        code, out, _ = call(capsys, "store", "verify", "--store", store)
        assert code == 0 and "2 unfinished trainings checked, 0 damaged" in out and "1 half-written" in out
        assert "2 decoded copies of images checked, 0 damaged" in out and "notes.txt" in out
        training, copy = (
            store / "unfinished" / f"{key('a')}.training.safetensors",
            tmp_path / "cache" / "images-a.safetensors",
        )
        for path in (training, copy):
            data = path.read_bytes()
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        code, out, _ = call(capsys, "store", "verify", "--store", store)
        assert code == 1 and out.count("damaged: /") == 2 and str(training) in out and str(copy) in out
        assert call(capsys, "store", "verify", "--remove", "--store", store)[0] == 0
        assert not training.exists() and not copy.exists()
        assert "removed 0 states (0 B) and 1 leftovers" in call(capsys, "store", "gc", "--store", store)[1]
        assert (store / "states" / "notes.txt").exists()

    def test_verify_takes_nothing_of_a_newer_scail_for_damaged(self, capsys, store):
        path = next((store / "states").glob("*/entry.json"))
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
        code, out, _ = call(capsys, "store", "verify", "--remove", "--store", store)
        assert code == 1 and "cannot be checked: " in out and "6 states checked, 0 damaged, 1 that cannot be" in out
        assert path.exists()

    def test_a_store_behind_a_url_is_verified_there(self, capsys, store, tmp_path, monkeypatch):
        monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
        url = f"file://{store}"
        code, out, _ = call(capsys, "store", "verify", "--store", url)
        assert code == 0 and "6 states checked, 0 damaged" in out
        path = next((store / "states").glob("*/tensors.safetensors"))
        path.write_bytes(path.read_bytes()[:-1])
        code, out, _ = call(capsys, "store", "verify", "--store", url)
        assert code == 1 and f"damaged: {url}/states/{path.parent.name}/tensors.safetensors" in out
        code, _, err = call(capsys, "store", "verify", "--remove", "--store", url)
        assert code == 2 and "a run makes again" in err and path.exists()

    def test_a_place_without_a_store_is_an_error(self, capsys, tmp_path):
        code, _, err = call(capsys, "store", "ls", "--store", tmp_path)
        assert code == 2 and "no scail store" in err
        assert not list(tmp_path.iterdir())


def test_a_terminal_gets_live_bars(tmp_path, run):
    """Under a pseudo-terminal: bars with epoch, speed and time left, then the table."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"], os.environ["COLUMNS"] = "xterm", "140"
        arguments = [*TINY, "--epochs", "3", "--methods", "ft", "--jobs", "1", "--out", str(tmp_path / "run")]
        os.execv(sys.executable, [sys.executable, "-m", "scail", *arguments, "--store", str(tmp_path / "store")])
    shown, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    text = shown.decode(errors="replace")
    assert os.waitstatus_to_exitcode(status) == 0, text
    assert "images/s" in text and "epoch" in text and "FT, herding exemplars" in text and "Results" in text


def test_decoded_copies_of_images_are_announced_listed_and_removed(tmp_path, capsys, monkeypatch):
    from scail.config import DataSettings
    from scail.datasets import load_dataset
    from scail.storage.cache import kept_images
    from scail.storage.store import Store
    from tests.cli.test_learn import write_images

    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCAIL_STORE", str(tmp_path / "store"))
    data = str(write_images(tmp_path / "pictures", "ant", "bee"))
    monkeypatch.setenv("SCAIL_IMAGE_CACHE", "no")
    assert load_dataset(data, DataSettings(image_size=8)).notes == () and kept_images() == []
    monkeypatch.delenv("SCAIL_IMAGE_CACHE")
    assert "decoded copies of its images are kept" in load_dataset(data, DataSettings(image_size=8)).notes[0]
    first, second = (path.stem for path in kept_images())
    out = call(capsys, "store", "ls")[1]
    assert f"{first}  " in out and "2 decoded copies of images" in out and str(tmp_path / "cache") in out
    assert call(capsys, "store", "rm", first)[0] == 0 and [path.stem for path in kept_images()] == [second]
    code, out, _ = call(capsys, "store", "verify")
    assert code == 0 and "nothing was trained yet" in out and "1 decoded copies of images checked, 0 damaged" in out
    left = tmp_path / "cache" / f".scail-{second}.safetensors.{'0' * 32}"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    (tmp_path / "cache" / "mine.txt").write_text("mine")
    Store(tmp_path / "store")
    assert "and 1 leftovers" in call(capsys, "store", "gc")[1] and not left.exists()
    assert (tmp_path / "cache" / "mine.txt").exists() and len(kept_images()) == 1
    assert call(capsys, "store", "rm", "images-none")[0] == 2
    assert call(capsys, "store", "rm", "images-")[0] == 0 and kept_images() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_is_full_is_named(unbuffered):
    command, around = [sys.executable, "-m", "scail", "--help"], os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=around)
    assert done.returncode == 2
    expected = (
        "scail: error: standard output: No space left on device; free some space there, then give the same command"
    )
    assert done.stderr.startswith(expected) and len(done.stderr.splitlines()) == 1
