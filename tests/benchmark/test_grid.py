"""Grids: what is planned, that no more is trained, and that interrupted ones go on; at tiny size."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from scail.benchmark.configuration import Configuration, settle
from scail.benchmark.finished import Finished
from scail.benchmark.grid import settle_grid
from scail.benchmark.grid_file import file_grid, read_grid_file
from scail.benchmark.paper_grids import GRIDS, named_grid
from scail.benchmark.plan import Count, plan_of, trajectories_of
from scail.benchmark.prices import Prices
from scail.benchmark.runner import config_of
from scail.benchmark.trajectory import Training, keys_of, trajectories_in
from scail.cli.main import main
from scail.config.recipes import PAPER_DATA, quick
from scail.config.schedule import Schedule
from scail.datasets.sources.nominal import nominal_dataset
from scail.report.grid import label_of, rows_of
from scail.results.archive import key_of_configuration
from scail.storage.store import Store, stored_keys
from tests.forked import Forked

TINY = """
dataset: digits
classes: 6
images-per-class: 20
epochs: 1
states: 3
memory: [12, 6]
methods: ft,scail,icarl,deesil,bic,lwf,full
"""
# State 0 of FT and DeeSIL, that of iCaRL and LwF, and BiC's for either memory, which sets images aside; then two later
# states each of FT random, FT herding, BiC and iCaRL for either memory, and of LwF, which has none; and Full.
TRAININGS = 2 + 2 + 4 * 2 * 2 + 2 + 1


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def rows(out: Path) -> dict[str, list[dict[str, object]]]:
    found = {}
    for path in sorted(out.glob("*/results.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.parent.name] = [{k: v for k, v in row.items() if k != "trained_epochs"} for row in lines]
    return found


def configurations_of(path: Path, out: Path) -> tuple[Configuration, ...]:
    return settle_grid(file_grid(path, {}), out).configurations


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A tiny grid of one's own, run in one process."""
    place = tmp_path_factory.mktemp("grid")
    (place / "tiny.yaml").write_text(TINY)
    with pytest.raises(SystemExit) as end:
        main(["grid", str(place / "tiny.yaml"), "--jobs", "1", *_places(place)])
    assert not end.value.code
    return place


def _places(place: Path) -> list[str]:
    return ["--out", str(place / "out"), "--store", str(place / "store")]


class TestPlan:
    """How much is trained, counted before it is."""

    @pytest.mark.parametrize("dataset", list(PAPER_DATA))
    def test_table1_as_by_hand(self, dataset, monkeypatch, tmp_path):
        monkeypatch.setenv("SCAIL_DATA", str(tmp_path))  # nothing is here: the published numbers count
        options = {"recipe": "paper", "network": "resnet8"}  # the network changes no count, and is quickly built
        settled = settle_grid(named_grid("table1", [dataset], options=options), tmp_path)
        (count,) = plan_of(settled.configurations).values()
        assert list(settled.missing) == [dataset]
        assert count.configurations == 5
        # State 0 is trained once for each Z: FT, FT^BAL and DeeSIL begin alike (1); iCaRL has a loss of its own (1);
        # BiC sets images aside that it never trains on (1): how many goes by the memory, so it has one for each.
        first, by_memory = 3, 2
        # Later states: FT random, FT herding, FT^BAL, iCaRL and BiC, for each memory. DeeSIL trains no network.
        lines = 5
        shared_z10 = first + by_memory + lines * 3 * 9  # three memories, nine later states
        shared_z20, shared_z50 = first + lines * 19, first + lines * 49
        full = 1
        assert count.shared == shared_z10 + shared_z20 + shared_z50 + full == 487
        # One by one: ten of Table 1's rows train every state (iCaRL, BiC, five and FT^BAL on random exemplars, ...).
        # DeeSIL trains state 0 only. Full does not depend on the configuration.
        rows_trained, deesil = 10, 1
        alone = sum(rows_trained * z + deesil for z in (10, 10, 10, 20, 50)) + full
        assert count.alone == alone == 1006
        # FT twice, FT^BAL, iCaRL, BiC and DeeSIL in each configuration; Full in all at once.
        assert count.trajectories == 6 * 5 + 1
        assert count.there == 0

    def test_table1_in_epochs_and_images(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SCAIL_DATA", str(tmp_path))
        options = {"epochs": "3,2", "network": "resnet8", "recipe": "quick"}
        points = named_grid("table1", ["cifar100"], ["ft", "full"], options=options)
        (count,) = plan_of(settle_grid(points, tmp_path).configurations).values()
        # FT with random exemplars: three epochs for state 0 of each Z and for Full, two for each later state.
        assert count.epochs == 3 * (3 + 1) + 2 * (3 * 9 + 19 + 49)
        images = 3 * (5000 + 2500 + 1000) + 3 * 50_000
        for z, memory in ((10, 1000), (10, 500), (10, 250), (20, 250), (50, 250)):
            images += 2 * (z - 1) * (50_000 // z + memory)
        assert count.passes == images

    def test_what_is_planned_is_what_is_trained(self, done):
        found = trajectories_of(configurations_of(done / "tiny.yaml", done / "out"))
        listing = Store(done / "store").listing()
        in_store = {item.key for item in listing if item.facts.get("kind") != "completion"}
        assert {key for one in found for key in one.keys} == in_store
        trained = {item.key for item in listing if item.facts.get("losses")}
        assert {key for one in found for key in one.trainings} == trained
        assert len(trained) == TRAININGS

    def test_a_second_plan_finds_all_in_the_store(self, done):
        configurations = configurations_of(done / "tiny.yaml", done / "elsewhere")
        (before,) = plan_of(configurations).values()
        (after,) = plan_of(configurations, stored_keys(done / "store")).values()
        assert (before.shared, before.there, before.epochs) == (TRAININGS, 0, TRAININGS)
        assert (after.shared, after.there, after.epochs) == (TRAININGS, TRAININGS, 0)

    def test_no_trajectory_twice_and_neighbours_begin_differently(self, done):
        found = trajectories_of(configurations_of(done / "tiny.yaml", done / "out"))
        assert len({one.keys for one in found}) == len(found)
        full = next(one for one in found if one.trainer == "joint")
        assert full.readers == (0, 1)  # one training for both configurations
        begins = [one.keys[0] for one in found[:3]]
        assert len(set(begins)) == 3

    def test_one_by_one_counts_only_what_was_asked_for(self, tmp_path):
        points = named_grid("supp-distill", ["glyphs"], options={"classes": 100, "images_per_class": 20})
        assert points[0].asked == {("ft", "random"), ("ft_distill", "herding"), ("icarl", "herding")}
        (count,) = plan_of(settle_grid(points, tmp_path).configurations).values()
        assert (count.alone, count.shared) == (3 * 50, 2 * 50)  # the free heads beside FT are not counted

    def test_what_ends_by_its_loss_takes_at_most_so_long_and_probably_what_others_took(self, capsys, tmp_path):
        path = tmp_path / "ends.yaml"
        schedule = "first.window=0,first.gain=0.9,later.window=0,later.gain=0.9"  # soon: after 8 epochs, and a third
        path.write_text(
            f"dataset: digits\nclasses: 4\nimages-per-class: 10\nstates: 2\nmemory: 8\nmethods: ft\nselect: random\n"
            f"epochs: 40\nschedule: {schedule}\n"
        )
        code, out, _ = call(capsys, "grid", path, "--plan", *_places(tmp_path))
        assert code == 0 and "epochs to do, at most" in out and "nobody knows when" in out
        limits = r"between [0-9.]+ \w+ and [0-9.]+ \w+"
        assert re.search(rf"estimated time +{limits}", out) and re.search(rf"are left. Time: {limits}", out)
        assert call(capsys, "grid", path, "--jobs", 1, *_places(tmp_path))[0] == 0
        epochs = [item.facts["epochs"] for item in Store(tmp_path / "store").listing()]
        assert epochs == [11, 11]
        (count,) = plan_of(
            settle_grid(file_grid(path, {"seed": 2}), tmp_path / "out").configurations,
            prices=lambda configuration: Prices(1.0, 0.0, 2.0), share=Finished.in_store(tmp_path / "store").share,
        ).values()  # fmt: skip
        assert (count.may_end, count.unlike, count.seconds) == (2, 0, 40 * (20 + 28) + 2 * 80)
        assert count.likely == pytest.approx(11 * (20 + 28) + 2 * 22)
        assert count.least == pytest.approx(count.likely)  # they ended as soon as they may
        out = call(capsys, "grid", path, "--plan", "--seed", 2, *_places(tmp_path))[1]
        assert re.search(rf"estimated time +[0-9.]+ \w+, {limits}", out) and "of its kind in the store" in out
        out = call(capsys, "grid", path, "--plan", "--seed", 2, "--batch-size", 16, *_places(tmp_path))[1]
        assert re.search(rf"estimated time +{limits}", out)  # of another kind

    def test_trainings_with_fixed_epochs_take_what_they_take(self, capsys, tmp_path):
        out = call(capsys, "grid", "table1", "--datasets", "cifar100", "--recipe", "split-mnist", "--network", "mlp",
                   "--methods", "ft", "--plan", *_places(tmp_path))[1]  # fmt: skip
        assert "at most" not in out and "between" not in out and re.search(r"estimated time +[0-9.]+ ", out)

    def test_a_teacher_looks_for_as_long_as_its_pupil_learns(self, tmp_path):
        found = Finished()
        experiment = quick("digits").but(classes=4, images_per_class=10, states=2, memory=8, methods=("icarl",))
        configurations = [settle(experiment)]
        (one,) = trajectories_of(configurations)
        for training in one.trainings.values():
            found.add(training.kind, training.epochs, 0.25)
        (count,) = plan_of(configurations, prices=lambda of: Prices(looking=1.0), share=found.share).values()
        looks = 20 + 28 + one.tests  # features of all images at hand, and the test images
        assert (count.seconds, count.likely) == (looks + 80 * 28, looks + 20 * 28)

    def test_of_finished_trainings_those_count_that_were_about_as_long(self):
        found = Finished({"kind": {80: [0.2, 0.4], 16: [1.0]}})
        shares = [
            found.share(Training(epochs, 1, 1, True, kind)) for epochs, kind in ((60, "kind"), (20, "kind"), (60, ""))
        ]
        assert shares == [pytest.approx(0.3), 1.0, None]

    def test_the_plan_command_needs_no_data_and_writes_nothing(self, capsys, tmp_path, monkeypatch):
        monkeypatch.setenv("SCAIL_DATA", str(tmp_path / "nowhere"))
        options = ("--plan", "--recipe", "paper", "--network", "resnet8")
        code, out, _ = call(capsys, "grid", "table1", *options, *_places(tmp_path))
        assert code == 0
        for text in ("ilsvrc*", "vggface2*", "landmarks*", "cifar100*", "planned from published numbers"):
            assert text in out
        lines = {line[:22].strip(): line[22:].split() for line in out.splitlines()}
        assert lines["trainings, one by one"] == ["1,006"] * 4 + ["4,024"]
        assert lines["trainings, shared"] == ["487"] * 4 + ["1,948"]
        assert lines["saved by sharing"] == ["519"] * 4 + ["2,076"]
        assert not list(tmp_path.iterdir())

    def test_without_the_data_nothing_starts_and_all_missing_ones_are_named(self, capsys, tmp_path, monkeypatch):
        monkeypatch.setenv("SCAIL_DATA", str(tmp_path / "nowhere"))
        code, out, err = call(capsys, "grid", "table1", "--methods", "ft", *_places(tmp_path))
        assert code == 2 and "trainings" in out
        assert all(name in err for name in PAPER_DATA) and "data not here" in err
        assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("undrawn")
class TestRun:
    """A grid as a user runs it."""

    def test_each_configuration_has_a_run_directory(self, done):
        names = ["digits-z3-b12-seed1", "digits-z3-b6-seed1"]
        out = done / "out"
        record = json.loads((out / "grid.json").read_text())
        assert [cell["folder"] for cell in record["cells"]] == names
        for name in names:
            assert {"config.json", "results.jsonl", "summary.json", "table.md", "figures", "report.html"} <= {
                path.name for path in (out / name).iterdir()
            }
            summary = json.loads((out / name / "summary.json").read_text())
            assert summary["full"] and {"ft", "scail", "lwf"} <= {m["method"] for m in summary["methods"]}
        page = (out / "report.html").read_text(encoding="utf-8")
        assert "All configurations" in page and 'data-against="memory"' in page
        epochs = sum(json.loads((out / n / "summary.json").read_text())["trained_epochs"] for n in names)
        assert epochs == TRAININGS  # one epoch each; a shared trajectory counts once

    def test_the_table_has_methods_by_rows_and_configurations_by_columns(self, done):
        text = (done / "out" / "table.md").read_text()
        assert "| method | Z=3, B=12 | Z=3, B=6 | G_IL |" in text
        for label in ("| iCaRL^herd |", "| ScaIL |", "| ScaIL^herd |", "| LwF |", "| Full |"):
            assert text.count(label) == 2  # top-5 and top-1

    def test_scail_paper_reads_the_whole_grid(self, done, capsys):
        code, out, _ = call(capsys, "paper", done / "out")
        assert code == 0 and out.count("matches no published cell") == 2

    @pytest.mark.soak
    def test_two_processes_give_the_same_rows(self, done, tmp_path, capsys):
        code, _, err = call(capsys, "grid", done / "tiny.yaml", "--jobs", 2, *_places(tmp_path))
        assert code == 0, err
        assert rows(tmp_path / "out") == rows(done / "out")
        assert stored_keys(tmp_path / "store") == stored_keys(done / "store")

    def test_a_cell_equals_the_same_run_alone(self, done, tmp_path, capsys):
        options = ("--dataset", "digits", "--classes", 6, "--images-per-class", 20, "--epochs", 1, "--states", 3)
        methods = ("--memory", 6, "--methods", "ft,scail,icarl,deesil,bic,lwf,full", "--jobs", 1)
        assert call(capsys, "run", *options, *methods, *_places(tmp_path))[0] == 0
        assert rows(tmp_path)["out"] == rows(done / "out")["digits-z3-b6-seed1"]

    def test_finished_ones_are_not_run_again(self, done, capsys):
        before = {path: path.stat().st_mtime_ns for path in (done / "out").glob("*/results.jsonl")}
        code, out, _ = call(capsys, "grid", done / "tiny.yaml", "--jobs", 1, *_places(done))
        assert code == 0 and out.count("finished before, not run again") == 2 and "ScaIL^herd" in out
        assert {path: path.stat().st_mtime_ns for path in before} == before

    def test_other_settings_in_the_same_folder_are_run(self, done, tmp_path, capsys):
        import shutil

        shutil.copytree(done / "out", tmp_path / "out")
        options = ("--methods", "ft", "--select", "random", "--jobs", 1, "--out", tmp_path / "out")
        code, out, _ = call(capsys, "grid", done / "tiny.yaml", *options, "--store", done / "store")
        assert code == 0 and "finished before" not in out
        assert {row["method"] for of in rows(tmp_path / "out").values() for row in of} == {"ft"}

    @pytest.mark.soak
    def test_interrupted_it_goes_on_with_the_same_bits(self, done, tmp_path, capsys):
        with Forked("grid", str(done / "tiny.yaml"), "--jobs", "1", *_places(tmp_path)) as running:
            for line in running.stdout:
                if "state 1: training" in line:
                    break
            running.send_signal(signal.SIGINT)
            said, _ = running.communicate(timeout=60)
        assert running.returncode == 130 and "Nothing is lost" in said
        some = stored_keys(tmp_path / "store")
        assert 0 < len(some) < len(stored_keys(done / "store"))
        code, _, err = call(capsys, "grid", done / "tiny.yaml", "--jobs", 1, *_places(tmp_path))
        assert code == 0, err
        assert rows(tmp_path / "out") == rows(done / "out")

    def test_a_named_grid_on_small_data_with_seeds(self, tmp_path, capsys):
        options = ("--datasets", "digits", "--methods", "ft,scail", "--epochs", 1, "--images-per-class", 20)
        places = ("--seeds", 2, "--jobs", 1, *_places(tmp_path))
        code, out, err = call(
            capsys, "grid", "supp-nomem", *options[:2], "--methods", "scail,lwf", *options[4:], *places
        )
        assert code == 0, err
        assert sorted(rows(tmp_path / "out")) == ["digits-z10-b0-seed1", "digits-z10-b0-seed2"]
        assert "±" in out and "2 seeds" in out
        code, out, _ = call(capsys, "grid", "table1", *options, "--plan", *_places(tmp_path))
        assert code == 0 and "Z=50 is left out" in out

    def test_a_folder_that_holds_other_things_is_left_alone(self, done, tmp_path, capsys):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.tex").write_text("mine")
        code, _, err = call(capsys, "grid", done / "tiny.yaml", *_places(tmp_path))
        assert code == 2 and "not a scail grid" in err
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


class TestNamed:
    """Which configurations the paper's grids have."""

    def test_memories_are_the_papers_numbers_or_shares_of_less_data(self):
        found = {name: [p.experiment.exemplars.memory for p in named_grid("table1", [name])] for name in PAPER_DATA}
        assert found["ilsvrc"] == [20000, 10000, 5000, 5000, 5000]
        assert found["vggface2"] == [10000, 5000, 2500, 2500, 2500]
        assert found["landmarks"] == [8000, 4000, 2000, 2000, 2000]
        assert found["cifar100"] == [1000, 500, 250, 250, 250]
        assert [p.experiment.stream.states for p in named_grid("table1", ["cifar100"])] == [10, 10, 10, 20, 50]
        less = named_grid("table1", ["cifar100"], options={"images_per_class": 50})
        assert [p.experiment.exemplars.memory for p in less] == ["2%", "1%", "0.5%", "0.5%", "0.5%"]

    def test_figures_need_more_of_ilsvrc_than_of_the_others(self):
        found = {p.experiment.dataset: p.asked for p in named_grid("figures")}
        assert found["ilsvrc"] == {("ft", "random"), ("scail", "random"), ("ft_distill", "herding")}
        assert found["cifar100"] == {("ft_distill", "herding")}
        assert [p.experiment.dataset for p in named_grid("figures", methods=["scail"])] == ["ilsvrc"]

    @pytest.mark.parametrize(
        ("name", "methods", "trainings"),
        [
            ("table2", (), 20),
            ("supp-errors", (), 20),
            ("supp-nomem", (), 20),
            ("supp-distill", (), 100),
            ("table1", ("ft_l2",), 3 + 3 * 9 + 19 + 49),
            ("table1", ("scail",), 3 + 2 * (3 * 9 + 19 + 49)),
            ("table1", ("deesil",), 3),
            ("table1", ("full",), 1),
        ],
    )
    def test_no_more_is_trained_than_needed(self, name, methods, trainings, tmp_path, monkeypatch):
        monkeypatch.setenv("SCAIL_DATA", str(tmp_path))
        points = named_grid(name, ["cifar100"], methods, options={"network": "resnet8"})
        assert sum(plan_of(settle_grid(points, tmp_path).configurations).values(), Count()).shared == trainings

    def test_free_heads_come_along_unless_methods_are_named(self):
        assert "ft_wa:random" in named_grid("table2")[0].experiment.methods
        assert named_grid("table1", methods=["ft", "icarl"])[0].experiment.methods == ("ft:random", "icarl:herding")

    def test_every_grid_can_be_settled(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SCAIL_DATA", str(tmp_path))
        for name in GRIDS:
            for point in named_grid(name, ["cifar100"]):
                (one,) = settle_grid([point], tmp_path).configurations
                assert trajectories_in(settle(one.experiment, nominal_dataset("cifar100")))

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["table9"], "unknown grid 'table9'; known: table1, table2"),
            (["nowhere.yaml"], "nowhere.yaml"),
            (["table1", "--methods", "e2e"], "--methods e2e: not in grid table1; it has ft,"),
            (
                ["table1", "--datasets", "cats"],
                "cats: there is no such folder or list file here",
            ),
            (["table1", "--recipe", "secret"], "--recipe secret: expected quick, cifar100-cpu, paper"),
            (["table1", "--jobs", "0"], "jobs is 0"),
            (["table1", "--seeds", "0"], "seeds is 0"),
            (["table1", "--classes", "5000", "--datasets", "cifar100"], "classes is 5000"),
            (["supp-distill", "--datasets", "digits"], "digits has 10 classes: Z=50 is left out"),
        ],
    )
    def test_mistakes_are_clear_errors(self, arguments, expected, capsys, tmp_path):
        code, out, err = call(capsys, "grid", *arguments, *_places(tmp_path))
        assert code == 2 and err.startswith("scail: error: ") and expected in err
        assert "Traceback" not in out + err and not list(tmp_path.iterdir())


class TestFile:
    """Grids of one's own."""

    def write(self, place: Path, text: str) -> Path:
        (place / "own.yaml").write_text(text)
        return place / "own.yaml"

    def test_a_list_means_each_and_duplicates_are_dropped(self, tmp_path):
        path = self.write(tmp_path, "dataset: [digits]\nstates: [2, 5, '2']\nmemory: [2%, 20]\nseed: [1, 2, 1]\n")
        asked = [point.experiment for point in file_grid(path, {})]
        found = [(one.stream.states, one.exemplars.memory, one.seed) for one in asked]
        assert found == [(z, b, s) for z in (2, 5) for b in ("2%", 20) for s in (1, 2)]
        settled = settle_grid(file_grid(path, {}), tmp_path)
        assert [cell.title for cell in settled.configurations][:2] == ["digits-z2-b28-seed1", "digits-z2-b28-seed2"]

    def test_what_a_share_comes_to_is_the_same_configuration(self, tmp_path):
        path = self.write(tmp_path, "dataset: digits\nimages-per-class: 20\nstates: 2\nmemory: [10%, 20]\n")
        assert len(configurations_of(path, tmp_path)) == 1

    def test_names_tell_what_else_varies(self, tmp_path):
        path = self.write(tmp_path, "dataset: digits\nstates: [[4, 6], 2]\nlr: [0.1, 0.05]\nmethods: ft\n")
        names = [cell.title for cell in configurations_of(path, tmp_path)]
        assert names[0] == "digits-z2from4-b28-lr-0.1-seed1" and len(set(names)) == 4

    def test_a_list_of_methods_is_one_configuration_and_lists_of_them_are_several(self, tmp_path):
        path = self.write(tmp_path, "dataset: digits\nstates: 2\nmethods: [scail, icarl]\n")
        assert [point.experiment.methods for point in file_grid(path, {})] == [("scail", "icarl")]
        path = self.write(tmp_path, "dataset: digits\nstates: 2\nmethods: [[scail, icarl], ft]\n")
        assert [point.experiment.methods for point in file_grid(path, {})] == [("scail", "icarl"), ("ft",)]

    def test_memory_of_each_class_stands_apart_from_as_much_in_all(self, tmp_path):
        path = self.write(tmp_path, "dataset: digits\nstates: 2\nmemory: [20/class, 200, 12800kB]\nmethods: ft\n")
        found = configurations_of(path, tmp_path)
        assert [cell.title for cell in found[:2]] == ["digits-z2-b200-per-class-seed1", "digits-z2-b200-seed1"]
        keys = [key_of_configuration(config_of(one)) for one in found]
        assert len(set(keys)) == len(keys)
        assert [one.per_class for one in found] == [20, None, None]

    @pytest.mark.usefixtures("undrawn")
    def test_methods_apart_stand_in_one_column(self, done, tmp_path, capsys):
        methods = "methods: [[ft, full], [icarl, lwf]]\nseed: [1, 1]\n"
        path = self.write(tmp_path, TINY.replace("methods: ft,scail,icarl,deesil,bic,lwf,full\n", methods))
        code, _, err = call(capsys, "grid", path, "--jobs", 1, "--out", tmp_path / "out", "--store", done / "store")
        assert code == 0, err
        assert len(rows(tmp_path / "out")) == 4
        text = (tmp_path / "out" / "table.md").read_text()
        assert "| method | Z=3, B=12 | Z=3, B=6 | G_IL |" in text and "–" not in text

    @pytest.mark.parametrize("name", [field.name for field in fields(Schedule)])
    def test_a_grid_can_vary_every_number_of_a_schedule_and_each_has_a_key_of_its_own(self, name, tmp_path):
        flags = {"divide_by_state": ("yes", "no"), "sum_micro_batches": ("yes", "no")}
        special = {"decay": ("steps", "cosine"), "milestones": ("1+2", "5"), "optimizer": ("adam", "sgd"), **flags}
        shares = dict.fromkeys(("momentum", "gain", "backbone_rate", "pruned"), ("0.1", "0.2"))
        values = (special | shares).get(name, ("2", "3"))
        path = self.write(tmp_path, "dataset: digits\nstates: 2\nmethods: ft:random\nschedule:\n")
        with path.open("a") as file:
            file.writelines(f"- later.micro_batch=4,later.{name}={value}\n" for value in values)
        trajectories = [trajectories_in(one)[0] for one in configurations_of(path, tmp_path)]
        assert len({getattr(of.configuration.experiment.recipe.schedules["later"], name) for of in trajectories}) == 2
        first, later = zip(*(keys_of(of, ("cpu", "same"), lambda state: "data") for of in trajectories), strict=True)
        assert len(set(first)) == 1 and len(set(later)) == 2
        assert len({of.configuration.title for of in trajectories}) == 2

    def test_options_of_the_command_replace_those_of_the_file(self, tmp_path):
        path = self.write(tmp_path, "dataset: digits\nepochs: [5, 6]\nseeds: 2\n")
        asked = [point.experiment for point in file_grid(path, {"epochs": "1", "dataset": ["a", "b"]})]
        found = [(one.dataset, one.recipe.schedules["later"].epochs, one.seed) for one in asked]
        assert found == [(d, 1, s) for d in ("a", "b") for s in (1, 2)]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("states: [10\nmemory: 2%\n", "line 2: not YAML"),
            ("memory: 2%\nstats: 10\n", "line 2: unknown key 'stats'; did you mean states?"),
            ("xyzzy: 10\n", "unknown key 'xyzzy'; known: dataset"),
            ("out: here\n", "out belongs to the command line: give it as --out"),
            ("seed: 1\nseed: 2\n", "line 2: seed is given twice"),
            ("image-size: 1\nimage_size: 2\n", "line 2: image_size is given twice"),
            ("seed: one\n", "seed: 'one': expected a whole number"),
            ("seed: true\n", "seed: True: expected a whole number"),
            ("select: best\n", "select: 'best': expected random, herding, both"),
            ("as-published: 1\n", "as_published: 1: expected true or false"),
            ("seeds: [1, 2]\n", "expected one number"),
            ("states: []\n", "expected a value, or a list of values"),
            ("states: {a: 1}\n", "expected a value, or a list of values"),
            ("- a\n- b\n", "expected options of `scail run`"),
            ("", "expected options of `scail run`"),
        ],
    )
    def test_mistakes_name_the_place(self, text, expected, tmp_path, capsys):
        path = self.write(tmp_path, text)
        code, _, err = call(capsys, "grid", path, "--plan", *_places(tmp_path))
        assert code == 2 and expected in err and "own.yaml" in err

    def test_a_file_that_is_no_text(self, tmp_path):
        (tmp_path / "own.yaml").write_bytes(b"\xff\xfe\x00\x80")
        with pytest.raises(ValueError, match="not a text file"):
            read_grid_file(tmp_path / "own.yaml")


def test_table_by_hand():
    def record(label, select, top5, in_paper=True, method="x"):
        names = {"label": label, "select": select, "in_paper": in_paper, "method": method, "memory": 10}
        return {**names, "top5": top5, "top5_std": None}

    columns = {
        "Z=2, B=10": {"methods": [record("SIW", "random", 60.0, False), record("FT", "random", 50.0, method="ft")],
                      "full": {"top5": 90.0}},
        "Z=5, B=10": {"methods": [record("FT", "random", 40.0, method="ft")], "full": {"top5": 90.0}},
    }  # fmt: skip
    # G_IL of FT: the mean of (50 - 90) / 10 and (40 - 90) / 10.
    assert rows_of(columns) == [
        ("FT", ["50.0", "**40.0**", "-4.50"]),
        ("SIW*, random", ["**60.0**", "–", "–"]),
        ("Full", ["90.0", "90.0", ""]),
    ]
    assert label_of(record("ScaIL", "herding", 1.0, method="scail")) == "ScaIL^herd"


def test_nominal_data_have_the_published_numbers_and_cannot_be_read():
    for name, known in PAPER_DATA.items():
        dataset = nominal_dataset(name)
        assert (len(dataset.class_names), len(dataset.train), len(dataset.test)) == known
    small = nominal_dataset("cifar100", 10, 7)
    assert (len(small.train), len(small.test)) == (70, 1000)
    with pytest.raises(ValueError, match="data are not here"):
        small.train.images.read(0, lambda width, height: (0, 0, 1, 1))
    with pytest.raises(ValueError, match="no published numbers"):
        nominal_dataset("digits")


def test_help_teaches_and_stays_light():
    script = "import sys, scail.cli.main, scail.cli.grid; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=False)
    assert done.stdout.split() == ["False", "False"]
