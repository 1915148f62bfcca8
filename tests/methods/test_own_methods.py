"""Methods of one's own: what a file may hold, what is told with its line, and what is in the key."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scail.benchmark.configuration import settle
from scail.benchmark.grid_file import file_grid
from scail.benchmark.paper_grids import named_grid
from scail.benchmark.runner import config_of, run_experiment
from scail.benchmark.trajectory import keys_of, trajectories_in
from scail.cli.main import main
from scail.config.recipes import quick
from scail.methods import METHODS
from scail.methods.own_methods import offered, own_methods
from scail.methods.source import read_source
from scail.methods.table import table_of
from scail.results.archive import Archive
from tests.forked import Forked

BEGIN = "import torch\nfrom scail import LinearHead, Method\nfrom scail.training import FineTune, Trainer\n"
HEAD = "def head(e):\n    return LinearHead(e.weight_CD.clone(), e.bias_C)\n"
ONE = "METHODS = {'m': Method('m', 's', head)}\n"
TRAINER = """
class Mine(FineTune):
    title = "mine"

    def train(self, task):
        network = super().train(task)
        with torch.no_grad():
            network.linear.bias += {bias}
        return network

    def settings(self, state):
        return {{**super().settings(state), "trainer": "mine"}}
"""


def write(place: Path, text: str, name: str = "mine.py") -> str:
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def table(rows: str) -> str:
    return f"{BEGIN}{HEAD}METHODS = {{\n    {rows}\n}}\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("x = (\n", 1, "not Python"),
        (BEGIN + "def head(:\n    pass\n", 4, "not Python: invalid syntax"),
        (BEGIN + HEAD, None, "has no METHODS; expected METHODS = {"),
        (BEGIN + "METHODS = {}\n", 4, "METHODS is {}"),
        (BEGIN + "METHODS = {'mine': Method('m', 's', missing)}\n", 4, "NameError: name 'missing' is not defined"),
        (BEGIN + "import nothing_like_it\n", 4, "ModuleNotFoundError"),
        (table("'mine': head"), 7, "is function; expected scail.Method"),
        (table("'my method': Method('m', 's', head)"), 7, "no name for a method"),
        (table("'all': Method('m', 's', head)"), 7, "no name for a method"),
        (table("'mine': Method('', 's', head)"), 7, "the label of 'mine' is ''"),
        (table("'mine': Method('m', 's', 'ft')"), 7, "expected a function of the evidence"),
        (table("'mine': Method('m', 's', head, options=('depth',))"), 7, "has option 'depth'; known: candidates"),
        (table("'mine': Method('m', 's', head, select='nearest')"), 7, "selects 'nearest'; expected random, herding"),
        (table("'mine': Method('m', 's', head, 'mine')"), 7, "no trainer 'mine'; known: fine_tune"),
        (table("'mine': Method('m', 's', head, int)"), 7, "expected a class that inherits scail.training.Trainer"),
        (table("'ft': Method('m', 's', head)"), 7, "the name 'ft' is that of FT"),
        (table("'mine': Method('duet', 's', head)"), 7, "the label 'duet' is that of duet"),
        (BEGIN + "def head():\n    pass\nMETHODS = {'m': Method('m', 's', head)}\n", 4, "cannot be called with the"),
        (BEGIN + "def head(e):\n    return e.weight_CD\nMETHODS = {'m': Method('m', 's', head)}\n", 4,
         "gave a tensor of shape (5, 7); expected a scail.LinearHead"),
        (BEGIN + "def head(e):\n    return LinearHead(e.weight_CD[:2], e.bias_C)\n" + ONE,
         4, "has weight (2, 7) and bias (5,) for 5 classes and 7 features; expected (5, 7) and (5,)"),
        (BEGIN + "def head(e):\n    return LinearHead(e.weight_CD / 0, e.bias_C)\n" + ONE,
         4, "are not numbers"),
        (BEGIN + "def head(e):\n    x = 1\n    return e.weights\nMETHODS = {'m': Method('m', 's', head)}\n", 6,
         "in head: AttributeError"),
        (BEGIN + HEAD + "def twice(f, n):\n    return torch.zeros(n).long()\n"
         "METHODS = {'m': Method('m', 's', head, select=twice)}\n", 6, "expected 4 different indices from 0 to 8"),
        (BEGIN + HEAD + "def half(f, n):\n    return torch.rand(n)\n"
         "METHODS = {'m': Method('m', 's', head, select=half)}\n", 6, "gave torch.float32 of shape (0,)"),
        (BEGIN + HEAD + "def herding_order(f, n):\n    return torch.arange(n)\n"
         "METHODS = {'m': Method('m', 's', head, select=herding_order)}\n", None, "has a selection herding already"),
        (BEGIN + HEAD + "class Mine(Trainer):\n    title = 'm'\n    schedules = ()\n    def train(self, task): ...\n"
         "METHODS = {'m': Method('m', 's', head, Mine)}\n", 6, "has no function of; it needs of, train, epochs, sett"),
        (BEGIN + HEAD + "class Mine(Trainer):\n    schedules = ()\nMETHODS = {'m': Method('m', 's', head, Mine)}\n", 6,
         "has no title"),
        (BEGIN + HEAD + "class Distill(FineTune):\n    pass\nMETHODS = {'m': Method('m', 's', head, Distill)}\n", 6,
         "scail has a trainer distill already"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(text, line, said, tmp_path):
    place = write(tmp_path, text)
    with pytest.raises(ValueError) as error:
        table_of(quick("digits").but(own_methods=(place,)))
    assert str(error.value).startswith(f"{place}, line {line}" if line else place) and said in str(error.value)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nothing.py", "no such file"),
        ("https://example.org/mine.py", "code is not fetched"),
        ("my_lab", "the name of a package's; no installed package offers one"),
    ],
)
def test_a_place_that_is_none_is_told(place, said):
    with pytest.raises(ValueError, match=said):
        own_methods(place)


def test_a_file_that_is_wrong_leaves_nothing_behind(tmp_path, capsys):
    place = write(tmp_path, table("'ft': Method('m', 's', head)"))
    for command in ("run", "grid table1"):
        with pytest.raises(SystemExit) as end:
            main([*command.split(), "--with", place, "--store", f"{tmp_path}/store", "--out", f"{tmp_path}/out"])
        assert end.value.code == 2 and f"{place}, line 7" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


class TestContent:
    def test_it_is_the_text_of_the_file_and_of_what_it_imports_beside_itself(self, tmp_path):
        place = tmp_path / "a" / "mine.py"
        write(tmp_path, "import csv\nimport near\nfrom parts import one\ndef later():\n    import far\n", "a/mine.py")
        for name in ("near.py", "far.py", "unused.py", "parts/__init__.py", "parts/one.py", "folder/x.py"):
            write(tmp_path / "a", "", name)
        write(tmp_path / "a", "from . import two\nimport folder.x\n", "parts/one.py")
        write(tmp_path / "a", "", "parts/two.py")
        source = read_source(place)
        names = {file.name for file in source.files}
        assert names == {"", "near", "far", "parts", "parts.one", "parts.two", "folder", "folder.x"}
        for name, differs in (("near.py", True), ("parts/two.py", True), ("folder/x.py", True), ("unused.py", False)):
            write(tmp_path / "a", "x = 1\n", name)
            assert (read_source(place).content != source.content) == differs, name
            write(tmp_path / "a", "", name)
        (tmp_path / "a").rename(tmp_path / "b")
        assert read_source(tmp_path / "b" / "mine.py").content == source.content

    def test_what_runs_is_what_was_read_however_quick_the_change(self, tmp_path):
        place = write(tmp_path, "from near import by\n" + table("f'm{by}': Method(f'm{by}', 's', head)"))
        found = []
        for number in (1, 2, 1):
            write(tmp_path, f"by = {number}\n", "near.py")
            found.append(own_methods(place))
        assert [[*one.methods] for one in found] == [["m1"], ["m2"], ["m1"]]
        assert found[0] is found[2] and not (tmp_path / "__pycache__").exists()

    def test_a_name_that_is_another_modules_is_an_error(self, tmp_path):
        write(tmp_path, "", "csv.py")
        with pytest.raises(ValueError, match=r"csv\.py beside it has the name of another module"):
            own_methods(write(tmp_path, "import csv\n"))
        for folder in ("one", "two"):
            write(tmp_path, "", f"{folder}/near_it.py")
            write(tmp_path, "import near_it\n" + table("'m': Method('m', 's', head)"), f"{folder}/m.py")
        own_methods(str(tmp_path / "one" / "m.py"))
        with pytest.raises(ValueError, match="the name of a module that is loaded already, from"):
            own_methods(str(tmp_path / "two" / "m.py"))

    def test_a_file_that_changed_since_the_run_began_is_an_error(self, tmp_path, tiny):
        place = write(tmp_path, table("'m': Method('m', 's', head)"))
        experiment = settle(tiny.but(own_methods=(place,), methods=("m",))).experiment
        assert experiment.own_methods == (place,) and len(experiment.own_content[0]) == 32
        write(tmp_path, table("'m': Method('m', 'another', head)"))
        with pytest.raises(ValueError, match="is not what it was when this run began"):
            settle(experiment)


def keys(experiment):
    """Keys of the states of each trajectory, without hashing images."""
    return {
        (one.trainer, one.select): keys_of(one, ("cpu", "cpu"), lambda state: state.class_names[0])
        for one in trajectories_in(settle(experiment))
    }


class TestKeys:
    def test_a_head_leaves_them_as_they_are(self, tmp_path, tiny):
        place = write(tmp_path, table("'m': Method('m', 's', head)"))
        known = keys(tiny.but(methods=("ft",)))
        assert keys(tiny.but(own_methods=(place,), methods=("m",))) == known

    def test_a_trainers_content_is_in_them_but_where_joint_trains(self, tmp_path, tiny):
        found = []
        for bias in (1, 2):
            rows = "'m': Method('m', 's', head, Mine)"
            place = write(tmp_path, table(rows).replace("METHODS", TRAINER.format(bias=bias) + "METHODS"))
            found.append(keys(tiny.but(own_methods=(place,), methods=("m",), select=("random",)))["mine", "random"])
        assert not set(found[0]) & set(found[1])  # its settings of state 0 are its own
        found = []
        for bias in (1, 2):
            shared = TRAINER.format(bias=bias).partition("    def settings")[0]
            place = write(tmp_path, table(rows).replace("METHODS", shared + "METHODS"))
            found.append(keys(tiny.but(own_methods=(place,), methods=("m",), select=("random",)))["mine", "random"])
        ft = keys(tiny.but(methods=("ft",), select=("random",)))["fine_tune", "random"]
        assert found[0][0] == found[1][0] == ft[0] and not set(found[0][1:]) & {*found[1][1:], *ft[1:]}

    def test_a_selections_content_is_in_them_from_state_1_on(self, tmp_path, tiny):
        found = []
        for step in (1, 2):
            pick = f"def own(f, n):\n    return torch.arange(n)  # {step}\n"
            place = write(tmp_path, BEGIN + HEAD + pick + "METHODS = {'m': Method('m', 's', head, select=own)}\n")
            found.append(keys(tiny.but(own_methods=(place,), methods=("m",)))["fine_tune", "own"])
        assert found[0][0] == found[1][0] and not set(found[0][1:]) & set(found[1][1:])


def test_what_the_file_does_in_a_shared_state_is_not_asked(tmp_path, tiny):
    """It says that its state 0 is Joint's: Joint trains it, not what the file has there."""
    cheat = "class Cheat(FineTune):\n    title = 'cheat'\n    def train(self, task):\n"
    cheat += "        raise RuntimeError(task.state)\n"
    place = write(tmp_path, BEGIN + HEAD + cheat + "METHODS = {'m': Method('m', 's', head, Cheat)}\n")
    experiment = tiny.but(own_methods=(place,), methods=("m",), select=("random",))
    with pytest.raises(ValueError, match=r"mine\.py, line 9, in train: RuntimeError: 1$"):
        run_experiment(experiment, tmp_path / "run", store=tmp_path / "store", jobs=1)
    assert len([*(tmp_path / "store" / "states").iterdir()]) == 1  # state 0, whole


def test_a_trainer_that_gives_no_network_is_told_and_nothing_is_kept(tmp_path, tiny):
    for body, said in (
        ("return None", "trainer wrong: train(task) gave NoneType in state 0; expected the Network"),
        ("network = super().train(task)\n        network.linear = torch.nn.Linear(64, 1)\n        return network",
         "the network has 1 outputs after state 0, and 2 classes were seen"),
    ):  # fmt: skip
        wrong = f"class Wrong(FineTune):\n    title = 'wrong'\n    def train(self, task):\n        {body}\n"
        wrong += "    def settings(self, state):\n        return {'trainer': 'wrong'}\n"
        place = write(tmp_path, BEGIN + HEAD + wrong + "METHODS = {'m': Method('m', 's', head, Wrong)}\n")
        experiment = tiny.but(own_methods=(place,), methods=("m",), select=("random",))
        with pytest.raises(ValueError) as error:
            run_experiment(experiment, tmp_path / "run", store=tmp_path / "store", jobs=1)
        assert said in str(error.value) and not [*(tmp_path / "store" / "states").iterdir()]


def test_settings_that_cannot_be_written_are_told(tmp_path, tiny):
    wrong = "class Wrong(FineTune):\n    title = 'wrong'\n    def settings(self, state):\n"
    wrong += "        return {'at': torch.zeros(1)}\n"
    place = write(tmp_path, BEGIN + HEAD + wrong + "METHODS = {'m': Method('m', 's', head, Wrong)}\n")
    with pytest.raises(ValueError, match=r"trainer wrong: settings\(0\) cannot be written as JSON"):
        run_experiment(tiny.but(own_methods=(place,), methods=("m",)), tmp_path / "run", store=tmp_path / "store")


@pytest.fixture
def mine(tmp_path):
    """A head, a trainer and a selection in one file."""
    pick = "def last_order(f, n):\n    return torch.arange(len(f)).flip(0)[:n]\n"
    rows = "'m': Method('m', 's', head), 'm_last': Method('m, last', 's', head, Mine, last_order)"
    return write(tmp_path, BEGIN + HEAD + TRAINER.format(bias=1) + pick + f"METHODS = {{{rows}}}\n")


@pytest.mark.soak
def test_worker_processes_give_the_same_and_load_the_file_themselves(mine, tiny, tmp_path):
    experiment = tiny.but(own_methods=(mine,), methods=("m:random", "m_last"))
    one = run_experiment(experiment, tmp_path / "one", store=tmp_path / "s1", jobs=1)
    two = run_experiment(experiment, tmp_path / "two", store=tmp_path / "s2", jobs=2)
    strip = lambda results: [replace(row, trained_epochs=0, provenance={}) for row in results.rows]  # noqa: E731
    assert strip(one) == strip(two)
    last = [row for row in one.rows if row.method == "m_last"]
    assert {(row.trainer, row.select, row.in_paper) for row in last} == {("mine", "last", False)}
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert config["own"] == dict.fromkeys(("m", "m_last"), own_methods(mine).content)
    kept = [path.name for path in (tmp_path / "s1" / "states").iterdir()]
    assert sorted(kept) == sorted(path.name for path in (tmp_path / "s2" / "states").iterdir())


@pytest.mark.soak
def test_two_devices_each_load_it(mine, tmp_path):
    arguments = (
        "run", "--with", mine, "--methods", "m_last", "--dataset", "digits", "--classes", "4", "--images-per-class",
        "10", "--states", "2", "--memory", "8", "--epochs", "1", "--devices", "2", "--accelerator", "cpu",
        "--store", f"{tmp_path}/store", "--out", f"{tmp_path}/out",
    )  # fmt: skip
    with Forked(*arguments) as process:
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    rows = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [(row["trainer"], row["select"]) for row in rows] == [("mine", "last")] * 2


def test_kept_numbers_go_by_the_content(mine, tiny, tmp_path):
    experiment = tiny.but(own_methods=(mine,), methods=("m:random", "ft:random"))
    results = run_experiment(experiment, tmp_path / "run", store=tmp_path / "store", jobs=1)
    config = config_of(settle(experiment))
    Archive(tmp_path / "kept").add(config, results.rows, 1.0)
    assert Archive(tmp_path / "kept").find(config).pairs == {("m", "random"), ("ft", "random")}
    Path(mine).write_text(Path(mine).read_text() + "# changed\n")
    assert Archive(tmp_path / "kept").find(config_of(settle(experiment))).pairs == {("ft", "random")}
    without = config_of(settle(tiny.but(methods=("ft:random",))))
    assert Archive(tmp_path / "kept").find(without).pairs == {("ft", "random")}


class TestGrids:
    def test_a_grid_of_the_paper_has_them_beside_its_own(self, mine):
        points = named_grid("table1", ["digits"], options={"with_": mine})
        assert {point.experiment.own_methods for point in points} == {(mine,)}
        assert all({"scail:random", "m", "m_last"} <= set(point.experiment.methods) for point in points)
        (only, *_) = named_grid("table1", ["digits"], ["m"], options={"with_": mine})
        assert only.experiment.methods == ("m",)
        with pytest.raises(ValueError, match="m_other: not in grid table1"):
            named_grid("table1", ["digits"], ["m_other"], options={"with_": mine})

    def test_a_file_has_the_key_with(self, mine, tmp_path):
        grid = tmp_path / "grid.yaml"
        grid.write_text(f"dataset: digits\nwith: {mine}\nmethods: m,ft\nstates: [2, 5]\n")
        assert {point.experiment.own_methods for point in file_grid(grid, {})} == {(mine,)}
        grid.write_text("wiht: mine.py\n")
        with pytest.raises(ValueError, match="did you mean with"):
            file_grid(grid, {})


def test_it_is_listed(mine, capsys):
    with pytest.raises(SystemExit) as end:
        main(["methods", "--with", mine])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "m_last" in said and "last" in said and len(said.splitlines()) >= len(METHODS) + 3


def test_nothing_of_it_is_left_in_the_table(mine):
    before = dict(METHODS)
    found = table_of(quick("digits").but(own_methods=(mine,))).methods
    assert set(found) == {*before, "m", "m_last"} and before == METHODS
    assert all(not found[name].in_paper for name in ("m", "m_last"))


def test_an_installed_package_offers_some_by_an_entry_point(tmp_path, monkeypatch, tiny, capsys):
    write(tmp_path, "", "my_package/__init__.py")
    write(tmp_path, "factor = 2\n", "my_package/numbers.py")
    text = BEGIN + "from my_package.numbers import factor\n" + HEAD + "METHODS = {'lab': Method('lab', 's', head)}\n"
    write(tmp_path, text, "my_package/methods.py")
    write(tmp_path, "Metadata-Version: 2.1\nName: my-package\nVersion: 1.2\n", "my_package-1.2.dist-info/METADATA")
    write(
        tmp_path, "[scail.methods]\nmy_lab = my_package.methods:METHODS\n", "my_package-1.2.dist-info/entry_points.txt"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "my_lab" in offered() and "my_package" not in sys.modules
    with pytest.raises(SystemExit):
        main(["methods"])
    assert "my-package 1.2 offers more: --with my_lab" in capsys.readouterr().out
    own = own_methods("my_lab")
    assert {file.name for file in own.source.files} == {"my_package.methods", "my_package", "my_package.numbers"}
    configuration = settle(tiny.but(own_methods=("my_lab",), methods=("lab", "ft")))
    assert configuration.methods == ("ft", "lab") and configuration.experiment.own_methods == ("my_lab",)


def test_probing_changes_no_random_state(mine):
    before = torch.get_rng_state()
    own_methods(mine)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: extra `ray`")
def test_rays_workers_load_it_themselves_and_give_the_same(mine, tmp_path):
    grid = "dataset: digits\nclasses: 6\nimages-per-class: 20\nstates: 3\nmemory: 12\nepochs: 1\nmethods: m_last\n"
    (tmp_path / "grid.yaml").write_text(f"{grid}with: {mine}\n")
    short = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets need a short path
    found = {}
    try:
        for engine in ("ray", "local"):
            out = tmp_path / engine
            command = ["grid", str(tmp_path / "grid.yaml"), "--engine", engine, "--jobs", "1", "--out", str(out)]
            subprocess.run(
                [sys.executable, "-m", "scail", *command, "--store", str(tmp_path / f"{engine}-store")],
                check=True, env=os.environ | {"RAY_TMPDIR": short, "RAY_raylet_start_wait_time_s": "300"},
            )  # fmt: skip
            (lines,) = out.glob("*/results.jsonl")
            found[engine] = lines.read_text()
    finally:
        shutil.rmtree(short, ignore_errors=True)
    assert found["ray"] == found["local"] and '"trainer": "mine"' in found["ray"]
