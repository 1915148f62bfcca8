"""Numbers that are kept: nothing is measured twice, nothing is lost, and claims are decided as by hand."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scail.benchmark.grid_file import file_grid
from scail.cli.main import main
from scail.config import schedule_names
from scail.config.recipes import quick
from scail.methods import METHODS, split_name
from scail.report.claims import CLAIMS, Claim, hold, published_top5
from scail.report.document import compared, document, section
from scail.report.settings import group_by_settings, titles_of
from scail.results.archive import Archive, Contribution, Measurements, configuration_of, key_of_configuration
from scail.results.row import ON_LEARNING, Row
from scail.results.summary import summarise, summarise_seeds
from scail.training import TRAINERS

ROOT = Path(__file__).parents[2]
GRID = """
dataset: digits
classes: 6
images-per-class: 20
epochs: 1
states: 3
memory: [12, 6]
methods: ft,scail,full
select: random
"""


def scail(*arguments: object) -> int:
    """The command line, as if typed: results carry their command."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(sys, "argv", ["scail", *map(str, arguments)])
        main()
    return int(end.value.code or 0)


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    code = scail(*arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A finished grid with its numbers kept in `kept`."""
    place = tmp_path_factory.mktemp("archive")
    (place / "grid.yaml").write_text(GRID)
    assert scail("grid", place / "grid.yaml", "--jobs", 1, "--out", place / "run", "--store", place / "store",
                 "--results", place / "kept") == 0  # fmt: skip
    return place


@pytest.mark.usefixtures("undrawn")
class TestArchive:
    def test_one_file_for_each_configuration_with_all_rows(self, place):
        files = sorted((place / "kept").glob("*.jsonl"))
        assert [path.stem for path in files] == ["digits-z3-b12-seed1", "digits-z3-b6-seed1"]
        configuration, made, *of_methods = lines(files[0])
        assert configuration["memory"] == 12 and configuration["state_sizes"] == [2, 2, 2]
        assert made["made"]["command"] == f"scail grid {place / 'grid.yaml'} --results {place / 'kept'}"
        assert made["made"]["seconds"] > 0 and made["made"]["provenance"]["torch"]
        run = lines(place / "run" / "digits-z3-b12-seed1" / "results.jsonl")
        assert [r["method"] for r in of_methods] == list(dict.fromkeys(r["method"] for r in run))  # a line for each
        rows = Archive(place / "kept").all()[0].rows
        assert [(r.method, r.state, r.top5, r.errors) for r in rows] == [
            (r["method"], r["state"], round(r["top5"], 4), r["errors"]) for r in run
        ]

    def test_what_rows_say_of_their_network_is_kept(self, place):
        """So that figures and claims can be drawn from kept numbers alone."""
        run = lines(place / "run" / "digits-z3-b12-seed1" / "results.jsonl")
        kept = {(row.method, row.state): row for row in Archive(place / "kept").all()[0].rows}
        for row in run:
            for name in ON_LEARNING:
                found = getattr(kept[row["method"], row["state"]], name)
                assert found == (round(row[name], 4) if isinstance(row[name], float) else row[name]), name
        ft = kept["ft", 2]
        assert ft.floor == pytest.approx(100 / 3, abs=1e-4) and 0 < ft.drift < 1
        assert 0 <= ft.exemplar_top1 <= 100 and 0 <= ft.new_top1 <= 100 and ft.learned in (True, False)

    def test_what_is_read_gives_the_same_summary(self, place):
        kept = Archive(place / "kept").all()[0]
        summary = json.loads((place / "run" / "digits-z3-b12-seed1" / "summary.json").read_text())
        found = summarise(kept.rows)["methods"]
        assert len(found) == len(summary["methods"])
        for mine, of_run in zip(found, summary["methods"], strict=True):
            assert mine["label"] == of_run["label"] and mine["top5"] == pytest.approx(of_run["top5"], abs=1e-4)

    def test_known_numbers_are_not_run_again_elsewhere(self, place, capsys, tmp_path):
        known = [path.read_bytes() for path in sorted((place / "kept").glob("*"))]
        code, said, _ = call(capsys, "grid", place / "grid.yaml", "--out", tmp_path / "run", "--store",
                             tmp_path / "store", "--results", place / "kept")  # fmt: skip
        assert code == 0 and "0 configurations were run" in said
        assert "ScaIL" in said and "Full" in said  # the table is there all the same
        assert [path.read_bytes() for path in sorted((place / "kept").glob("*"))] == known
        assert not list((tmp_path / "run").glob("*/results.jsonl"))

    def test_numbers_in_32_bits_are_not_mixed_with_others_and_it_says_how_to_go_on(
        self, place, capsys, tmp_path, monkeypatch
    ):
        grid, results = place / "grid.yaml", tmp_path / "kept"
        full = ("--methods", "full", "--precision", "32-true", "--results", results)
        assert scail("grid", grid, "--jobs", 1, "--out", tmp_path / "run", "--store", tmp_path / "store", *full) == 0
        monkeypatch.setattr("scail.networks.precision.quick_bf16", lambda accelerator: True)
        code, said, _ = call(capsys, "grid", grid, "--methods", "full", "--plan", "--results", results)
        assert code == 0 and "Precision: bf16-mixed." in said
        assert "some numbers are known in 32-true: --precision 32-true goes on from them" in said
        code, said, _ = call(capsys, "grid", grid, "--plan", *full)
        assert code == 0 and "Precision: 32-true." in said and "known in" not in said
        assert said.count("finished before, not run again") == 2

    def test_only_the_missing_methods_are_run_and_added(self, place, capsys, tmp_path):
        results = tmp_path / "kept"
        results.mkdir()
        for path in (place / "kept").glob("*"):
            (results / path.name).write_bytes(path.read_bytes())
        code, said, _ = call(capsys, "grid", place / "grid.yaml", "--jobs", 1, "--methods", "ft,ft_l2,deesil", "--out",
                             tmp_path / "run", "--store", place / "store", "--results", results)  # fmt: skip
        assert code == 0 and "2 configurations were run" in said
        run = lines(tmp_path / "run" / "digits-z3-b12-seed1" / "results.jsonl")
        assert {r["method"] for r in run} == {"ft_l2", "deesil"}
        kept = Archive(results).all()[0]
        assert [len(part.rows) for part in kept.parts] == [7, 6]
        assert kept.pairs == {
            ("ft", "random"), ("scail", "random"), ("full", None), ("ft_l2", "random"), ("deesil", "random"),
        }  # fmt: skip
        assert "DeeSIL" in said and "ScaIL" in said

    def test_full_is_known_from_another_number_of_states_and_images(self, place, capsys, tmp_path):
        results = tmp_path / "kept"
        shutil.copytree(place / "kept", results)
        (tmp_path / "grid.yaml").write_text(GRID.replace("states: 3", "states: 2").replace("[12, 6]", "8"))
        arguments = "grid", tmp_path / "grid.yaml", "--jobs", 1, "--store", place / "store", "--results", results
        code, said, _ = call(capsys, *arguments, "--out", tmp_path / "run")
        run = tmp_path / "run" / "digits-z2-b8-seed1"
        assert code == 0 and {r["method"] for r in lines(run / "results.jsonl")} == {"ft", "scail"}
        assert "Full" in said
        kept = Archive(results).find(json.loads((run / "config.json").read_text()))
        lender = Archive(place / "kept").all()[0]
        full = [row for row in lender.rows if row.method == "full"]
        assert [row for row in kept.rows if row.method == "full"] == full and full
        assert kept.parts[1].made == lender.parts[0].made  # with how it was made
        before = (results / "digits-z2-b8-seed1.jsonl").read_bytes()
        code, said, _ = call(capsys, *arguments, "--out", tmp_path / "again")
        assert code == 0 and "0 configurations were run" in said and "Full" in said
        assert (results / "digits-z2-b8-seed1.jsonl").read_bytes() == before
        call(capsys, "paper", results, "--out", tmp_path / "results.md")
        how = [line for line in (tmp_path / "results.md").read_text().splitlines() if line.startswith("| `scail")]
        assert sorted(line.split("|")[5].strip() for line in how) == ["1", "2"]  # the run that has Full is counted once

    def test_full_alone_may_be_known_from_elsewhere(self, place, capsys, tmp_path):
        shutil.copytree(place / "kept", tmp_path / "kept")
        (tmp_path / "grid.yaml").write_text(GRID.replace("states: 3", "states: 2").replace("ft,scail,full", "full"))
        code, said, _ = call(capsys, "grid", tmp_path / "grid.yaml", "--out", tmp_path / "run", "--store",
                             tmp_path / "store", "--results", tmp_path / "kept")  # fmt: skip
        assert code == 0 and "0 configurations were run" in said and "Full" in said

    def test_full_of_other_data_orders_or_schedules_is_not_taken(self, place):
        archive = Archive(place / "kept")
        config = json.loads((place / "run" / "digits-z3-b12-seed1" / "config.json").read_text())
        other = {**config, "memory": 9, "state_sizes": [3, 3]}
        experiment = config["experiment"]
        first = {**experiment["first_schedule"], "epochs": 2}
        assert archive.find(other).pairs == {("full", None)}
        for changed in (
            {**other, "class_order": other["class_order"][::-1]},
            {**other, "dataset": {**other["dataset"], "fingerprint": "another"}},
            {**other, "experiment": {**experiment, "seed": 2}},
            {**other, "experiment": {**experiment, "first_schedule": first}},
        ):
            assert archive.find(changed).pairs == set()

    def test_two_grids_may_add_to_one_configuration(self, place, tmp_path):
        config = json.loads((place / "run" / "digits-z3-b12-seed1" / "config.json").read_text())
        rows = Archive(place / "kept").find(config).rows
        one, other = Archive(tmp_path / "kept"), Archive(tmp_path / "kept")
        one.add(config, [row for row in rows if row.method == "ft"], 1.0)
        other.add(config, [row for row in rows if row.method != "ft"], 1.0)
        one.add({**config, "memory": 9}, [row for row in rows if row.method == "ft"], 1.0)
        assert sorted(path.stem for path in (tmp_path / "kept").glob("*.jsonl")) == [
            "digits-z3-b12-seed1",
            "digits-z3-b9-seed1",
        ]
        assert Archive(tmp_path / "kept").find(config).pairs == Archive(place / "kept").find(config).pairs
        lent = Archive(tmp_path / "kept").all()[1]
        assert lent.pairs == {("ft", "random"), ("full", None)}  # Full of what came meanwhile

    def test_a_finished_run_is_not_run_again_because_full_is_known_by_now(self, place, capsys, tmp_path):
        results = tmp_path / "kept"
        results.mkdir()
        shutil.copy(place / "kept" / "digits-z3-b12-seed1.jsonl", results)
        (tmp_path / "grid.yaml").write_text(GRID.replace("[12, 6]", "6"))
        arguments = "grid", tmp_path / "grid.yaml", "--jobs", 1, "--out", tmp_path / "run", "--store", place / "store"
        assert "1 configurations were run" in call(capsys, *arguments)[1]
        code, said, _ = call(capsys, *arguments, "--results", results)
        assert code == 0 and "0 configurations were run" in said
        assert Archive(results).all()[1].pairs == {("ft", "random"), ("scail", "random"), ("full", None)}

    def test_runs_that_were_finished_before_are_kept_too(self, place, capsys, tmp_path):
        code, said, _ = call(capsys, "grid", place / "grid.yaml", "--jobs", 1, "--out", place / "run", "--store",
                             place / "store", "--results", tmp_path / "kept")  # fmt: skip
        assert code == 0 and "0 configurations were run" in said
        assert len(Archive(tmp_path / "kept")) == 2

    def test_the_key_is_of_what_decides_the_numbers(self, place):
        config = json.loads((place / "run" / "digits-z3-b12-seed1" / "config.json").read_text())
        key = key_of_configuration(config)
        for name, value in (("methods", ["ft"]), ("recipe", "mine"), ("workers", 9), ("later_schedule", {})):
            assert key_of_configuration({**config, "experiment": {**config["experiment"], name: value}}) == key
        with_more = {k: v for k, v in config["experiment"].items() if k != "as_published"}  # as if it were yet to come
        assert key_of_configuration({**config, "experiment": with_more}) == key
        assert key_of_configuration({**config, "command": ["other"], "started": "now"}) == key
        later = ("devices", "nodes", "sync_batch_norm", "linear_scaling")
        earlier = {name: value for name, value in config["experiment"].items() if name not in later}
        assert key_of_configuration({**config, "experiment": earlier}) == key  # of a version without these
        for name, value in (("seed", 2), ("network", "resnet20"), ("candidates", 3), ("threads", 2), ("devices", 2)):
            assert key_of_configuration({**config, "experiment": {**config["experiment"], name: value}}) != key
        assert key_of_configuration({**config, "memory": 13}) != key
        assert configuration_of(config)["class_order"] == config["class_order"]

    def test_schedules_matter_to_the_methods_that_use_them(self, place, capsys, tmp_path):
        results = tmp_path / "kept"
        shutil.copytree(place / "kept", results)
        (tmp_path / "grid.yaml").write_text(GRID.replace("[12, 6]", "12") + "schedule: later.lr=0.05\n")
        code, _, _ = call(capsys, "grid", tmp_path / "grid.yaml", "--jobs", 1, "--methods", "ft,full", "--out",
                          tmp_path / "run", "--store", place / "store", "--results", results)  # fmt: skip
        run = lines(tmp_path / "run" / "digits-z3-b12-seed1" / "results.jsonl")
        assert code == 0 and {r["method"] for r in run} == {"ft"}  # Full knows no later states
        config = json.loads((tmp_path / "run" / "digits-z3-b12-seed1" / "config.json").read_text())
        found = Archive(results).find(config)
        assert found.pairs == {("ft", "random"), ("full", None)}
        assert [r.top5 for r in found.rows if r.method == "ft"] == [round(r["top5"], 4) for r in run]
        before = json.loads((place / "run" / "digits-z3-b12-seed1" / "config.json").read_text())
        assert Archive(results).find(before).rows == Archive(place / "kept").find(before).rows
        call(capsys, "paper", results, "--out", tmp_path / "two.md")
        settings = [line for line in (tmp_path / "two.md").read_text().splitlines() if "; Z=3, B=10 %" in line]
        full = f"{next(r.top5 for r in found.rows if r.method == 'full'):.1f} |"
        assert [line.split(";")[0] for line in settings[:2]] == ["| base", "| later lr 0.05"]
        assert all(line.endswith(full) for line in settings[:2])  # it stands beside both

    def test_what_one_trainer_varied_stands_alone(self, place):
        kept = Archive(place / "kept").all()[0]
        row, made = kept.rows[0], kept.parts[0].made

        def part(trainer, **changed):
            schedules = {name: {**made["schedules"][name]} for name in made["schedules"]}
            for name, lr in changed.items():
                schedules[f"{name}_schedule"]["lr"] = lr
            return Contribution({**made, "schedules": schedules}, [replace(row, trainer=trainer)])

        parts = [part("fine_tune", later=0.5), part("fine_tune"), part("fine_tune"), part("distill", distill=9.0)]
        parts += [part("distill"), part("distill"), part("balanced"), part("balanced", later=0.5), part("joint")]
        parts += [part("bic", bic=8.0), part("bic", bic=7.0), part("balanced", balanced=3.0), part("balanced")]
        groups = group_by_settings([replace(kept, parts=parts)])
        trainers = [[row.trainer for row in group[0].rows] for group in groups]
        assert trainers == [
            ["fine_tune", "fine_tune", "distill", "distill", "balanced", "joint", "bic", "balanced"],
            ["fine_tune", "balanced", "joint"], ["distill"], ["joint", "balanced"], ["bic"],
        ]  # fmt: skip
        titles = titles_of(groups)
        assert titles == ["base", "later lr 0.5", "distill lr 9.0", "balanced lr 3.0", "bic lr 7.0"]

        # A value that another schedule has too is not the common one for that.
        parts = [part("bic", bic_first=0.2), part("bic", bic_first=0.2), part("bic"), part("fine_tune", later=0.5)]
        parts += [part("fine_tune", later=0.6), part("fine_tune", later=0.7)]
        groups = group_by_settings([replace(kept, parts=parts)])
        titles = titles_of(groups)
        assert [title for title in titles if "bic" in title] == ["bic first lr 0.1"]

        # What has the most rows is the base, also where two other settings share a value.
        parts = [part("balanced"), part("balanced"), part("balanced"), part("balanced", later=0.5, balanced=3.0)]
        groups = group_by_settings([replace(kept, parts=[*parts, part("balanced", later=0.6, balanced=3.0)])])
        assert titles_of(groups) == ["base", "later lr 0.5, balanced lr 3.0", "later lr 0.6, balanced lr 3.0"]

    def test_full_alone_is_compared_too(self, place):
        kept = Archive(place / "kept").all()[0]
        full = [row for row in kept.rows if row.method == "full"]
        made = kept.parts[0].made
        longer = {**made["schedules"], "first_schedule": {**made["schedules"]["first_schedule"], "epochs": 9}}
        parts = [
            Contribution(made, full),
            Contribution({**made, "schedules": longer}, [replace(row, top5=12.3) for row in full]),
        ]
        text = compared(group_by_settings([replace(kept, parts=parts)]))
        assert "## 2 settings" in text and "first epochs 9; Z=3" in text and "| 12.3 |" in text

    def test_less_memory_stands_to_the_right_and_none_last(self, place):
        kept = Archive(place / "kept").all()[0]
        images = kept.configuration["dataset"]["train_images"]
        memories = [0, images // 2, images, images // 10]
        several = [replace(kept, configuration={**kept.configuration, "memory": memory}) for memory in memories]
        (group,) = group_by_settings(several)
        assert [one.configuration["memory"] for one in group] == [images, images // 2, images // 10, 0]

    @pytest.mark.parametrize("name", TRAINERS)
    def test_a_trainer_is_as_its_schedules_are(self, name):
        recipe, trainer = quick("digits").recipe, TRAINERS[name]
        for schedule in recipe.schedules:
            other = recipe.schedules.but([(schedule, "epochs", 77)])
            same = trainer.of(recipe, other, 10) == trainer.of(recipe, recipe.schedules, 10)
            assert same == (schedule not in trainer.schedules)

    def test_files_of_0_1_are_read_with_the_schedules_that_trainers_had_then(self):
        later = ("replay", "from_memory", "lucir", "wa", "podnet", "threshold_moving", "der", "m2kd", "fearnet")
        later += ("der_pruned", "packnet", "progressive", "growing_brain", "lwf_softmax", "generative_replay")
        then = {name: trainer for name, trainer in TRAINERS.items() if not trainer.frozen and name not in later}
        used = {name: Contribution({}, []).used_by(name) for name in then}
        assert used == {name: schedule_names(trainer.schedules) for name, trainer in then.items()}

    def test_a_method_without_its_last_state_is_not_known(self, place):
        kept = Archive(place / "kept").all()[0]
        cut = [row for row in kept.rows if (row.method, row.state) != ("scail", 2)]
        assert ("scail", "random") not in Measurements(
            kept.configuration, [Contribution(kept.parts[0].made, cut)]
        ).pairs

    @pytest.mark.parametrize(
        "text",
        [
            "", "[]\n", "{}\n", "no json\n", '{"key": "a"}\n{"top1": 3}\n',
            '{"key": "a", "experiment": {"seed": 1}}\n{"made": {"command": "scail grid"}}\n',  # schedules unknown
        ],
    )  # fmt: skip
    def test_other_files_are_clear_errors(self, text, tmp_path, capsys):
        (tmp_path / "a.jsonl").write_text(text)
        code, _, said = call(capsys, "paper", tmp_path)
        assert code == 2 and "a.jsonl: not a file of results" in said


class TestDocument:
    def test_it_has_tables_errors_and_how(self, place, capsys, tmp_path):
        out = tmp_path / "results.md"
        code, said, _ = call(capsys, "paper", place / "kept", "--out", out)
        text = out.read_text()
        assert code == 0 and "2 configurations" in said
        assert (tmp_path / "images" / "results.png").stat().st_size > 1000
        summary = json.loads((place / "run" / "digits-z3-b12-seed1" / "summary.json").read_text())
        ft = next(record for record in summary["methods"] if record["method"] == "ft")
        assert f"| FT | **{ft['top5']:.1f}**" in text or f"| FT | {ft['top5']:.1f}" in text
        assert "## digits" in text and "Z=3, B=10 % (12)" in text and "e(p,n)" in text and "scail grid" in text
        assert str(place / "run") not in text  # where one's folders are is nobody's business

    @pytest.mark.usefixtures("undrawn")
    def test_several_settings_are_compared_by_what_sets_them_apart(self, place, capsys, tmp_path):
        (tmp_path / "grid.yaml").write_text(GRID + "keep-past-rows: true\n")
        for path in (place / "kept").glob("*"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        call(capsys, "grid", tmp_path / "grid.yaml", "--jobs", 1, "--methods", "ft", "--out", tmp_path / "run",
             "--store", place / "store", "--results", tmp_path)  # fmt: skip
        code, _, _ = call(capsys, "paper", tmp_path, "--out", tmp_path / "two.md")
        text = (tmp_path / "two.md").read_text()
        assert code == 0 and "## 2 settings" in text and "claim" not in text
        mine = next(line for line in text.splitlines() if line.startswith("| keep past rows yes; Z=3, B=10 % (12) |"))
        summary = json.loads((tmp_path / "run" / "digits-z3-b12-seed1" / "summary.json").read_text())
        best = f"| **{summary['methods'][0]['top5']:.1f}** |"
        assert best in mine.replace("†", "") and mine.endswith("| – | – |")  # neither ScaIL nor Full
        assert "| base; Z=3, B=5 % (6) |" in text and text.count("scail grid") == 2

    @pytest.mark.parametrize(("learned", "verdict"), [(True, "undecided"), (False, "not testable")])
    def test_a_claim_about_kept_numbers_rests_on_networks_that_learned(self, place, learned, verdict):
        kept = Archive(place / "kept").all()[0]
        experiment = {**kept.configuration, "state_sizes": [1] * 10, "memory": 2}
        configuration = {
            **experiment,
            "dataset": {**kept.configuration["dataset"], "name": "cifar100", "train_images": 100},
        }
        rows = [replace(row, learned=learned or row.state == 0) for row in kept.rows if row.method != "full"]
        rows = [replace(row, label={"ft": "FT^L2", "scail": "ScaIL"}[row.method], top5=50.0) for row in rows]
        rows = [replace(row, method={"ft": "ft_l2"}.get(row.method, row.method)) for row in rows]
        text = section([Measurements(configuration, [Contribution(kept.parts[0].made, rows)])], "")
        (line,) = (line for line in text.splitlines() if line.startswith("| 10 | 2% | ScaIL > FT^L2 |"))
        assert line.split(" | ")[4] == verdict and ("†: in some state the network did not learn" in text) != learned

    def test_without_a_memory_has_a_table_and_a_g_il_of_its_own(self, place):
        kept = Archive(place / "kept").all()
        none = [replace(row, memory=0, select=None) for row in kept[0].rows]
        without = Measurements({**kept[0].configuration, "memory": 0}, [Contribution(kept[0].parts[0].made, none)])
        (alone,), (group,) = group_by_settings(kept), group_by_settings([*kept, without])
        top5 = section(group, "").split("### Top-1")[0].splitlines()
        heads = [line for line in top5 if line.startswith("| method")]
        assert heads[1:] == ["| method | Z=3, B=0 % (0) | G_IL |"] and "B=0 %" not in heads[0]
        assert next(line for line in section(alone, "").splitlines() if line.startswith("| ScaIL")) in top5
        assert any(line.startswith("| FT^noMem |") for line in top5)

    def test_documents_about_numbers_are_what_the_tool_makes_of_them(self):
        for path in sorted((ROOT / "docs" / "results").glob("*.md")):
            text = path.read_text()
            made = re.search(r"Made by `(scail paper (\S+) --out \S+)`", text)
            if made is None:
                continue
            groups = group_by_settings(Archive(ROOT / made[2]).all())
            assert document(groups, f"images/{path.stem}.png", made[1].split()) == text, f"run {made[1]}"

    @pytest.mark.parametrize("path", sorted((ROOT / "results").rglob("*.yaml")), ids=lambda path: path.stem)
    def test_grids_that_are_kept_can_be_run(self, path):
        points = file_grid(path, {})
        assert points and all(split_name(name)[0] in METHODS for one in points for name in one.experiment.methods)

    def test_kept_numbers_stay_small(self):
        assert sum(path.stat().st_size for path in (ROOT / "results").rglob("*.jsonl")) <= 1_000_000

    def test_no_folder_and_no_results_are_clear_errors(self, capsys, tmp_path):
        assert "no such folder" in call(capsys, "paper", tmp_path / "none")[2]
        code, _, said = call(capsys, "paper", tmp_path)
        assert code == 2 and "no results there" in said

    def test_runs_and_kept_numbers_are_not_mixed_and_only_the_latter_make_a_document(self, place, capsys, tmp_path):
        kept, runs = place / "kept", place / "run"
        for words, message in (
            ((kept, runs), f"{kept} holds kept numbers, {runs} holds runs; give one kind at a time"),
            ((kept, kept), "a document is about one such folder"),
            ((runs, "--out", tmp_path / "x.md"), "runs are only printed; a document is made of kept numbers"),
            ((), "no folder was given; give folders of `scail run`"),
        ):
            code, _, said = call(capsys, "paper", *words)
            assert code == 2 and message in said
        assert not list(tmp_path.iterdir())
        assert "matches no published cell" in call(capsys, "paper", runs)[1]
        assert "matches no published cell" in call(capsys, "paper", runs / "digits-z3-b12-seed1")[1]

    def test_without_out_it_goes_beside_the_numbers_and_says_how_it_was_made(self, place, capsys, tmp_path):
        shutil.copytree(place / "kept", tmp_path / "kept")
        code, said, _ = call(capsys, "paper", tmp_path / "kept")
        assert code == 0 and str(tmp_path / "kept" / "results.md") in said
        text = (tmp_path / "kept" / "results.md").read_text()
        assert f"Made by `scail paper {tmp_path / 'kept'}`; not written by hand." in text


A, B, C = ("ft", "random"), ("scail", "random"), ("bic", "herding")
HERE = (10, "2%")


def measured(*seeds: tuple[float, ...]) -> dict:
    return {HERE: {n: dict(zip((A, B, C), values, strict=False)) for n, values in enumerate(seeds)}}


class TestClaims:
    def test_by_hand(self):
        claim = Claim(HERE, "ScaIL > FT", (B,), (A,))
        held = hold(claim, measured((50, 52), (50, 53), (50, 54)))
        assert (held.verdict, held.difference, held.seeds) == ("shown", 3, 3)
        assert held.error == pytest.approx(1 / 3**0.5)
        assert hold(claim, measured((52, 50), (53, 50), (54, 50))).verdict == "not shown"
        assert hold(claim, measured((50, 51), (50, 56), (50, 49))).verdict == "undecided"
        assert hold(claim, measured((50, 52), (50, 54))).verdict == "undecided"  # three standard errors of two seeds

    def test_one_seed_decides_nothing_and_none_is_missing(self):
        claim = Claim(HERE, "ScaIL > FT", (B,), (A,))
        assert hold(claim, measured((50, 90))).verdict == "undecided"
        assert hold(claim, {}).verdict == "missing"

    def test_the_best_must_be_above_each_and_all_must_be_there(self):
        best = Claim(HERE, "ScaIL is the best", (B,), (A, C))
        assert hold(best, measured((50, 60, 55), (50, 61, 56))).verdict == "shown"
        assert hold(best, measured((50, 60, 55), (50, 61, 54))).verdict == "undecided"
        held = hold(best, measured((50, 60, 65), (50, 61, 66)))
        assert (held.verdict, held.difference) == ("not shown", -5)
        assert hold(best, measured((50, 60), (50, 61))).verdict == "missing"
        assert hold(best, measured((60, 50), (61, 51))).verdict == "not shown"  # one that is there refutes it
        two = Claim(HERE, "both are above", (B, C), (A,))  # C has one seed and a lower mean; B still refutes it
        assert hold(two, {HERE: {1: {A: 60, B: 50, C: 40}, 2: {A: 61, B: 51}}}).verdict == "not shown"

    def test_as_good_within_a_point(self):
        claim = Claim(HERE, "as good", (B,), (A,), within=1.0)
        assert hold(claim, measured((50, 50.02), (50, 49.98))).verdict == "shown"
        assert hold(claim, measured((50, 55), (50, 55.1))).verdict == "not shown"
        assert hold(claim, measured((50, 50.5), (50, 51.5))).verdict == "undecided"

    def test_the_papers_own_table_shows_every_claim_about_it(self):
        """With the published numbers as two equal seeds (no spread), nothing is refuted."""
        table = {place: {1: of, 2: of} for place, of in published_top5().items()}
        verdicts = {(claim.place, claim.text): hold(claim, table).verdict for claim in CLAIMS}
        missing = {key for key, verdict in verdicts.items() if verdict == "missing"}
        assert missing == {((10, "0.5%"), "distillation helps: FT^distill > FT")}  # published as errors only
        assert set(verdicts.values()) == {"shown", "missing"}

    def test_published_numbers_by_hand(self):
        table = published_top5()
        assert {place: len(of) for place, of in table.items()} == {
            (10, "2%"): 11, (10, "1%"): 11, (10, "0.5%"): 11, (20, "0.5%"): 11, (50, "0.5%"): 11, (10, "0%"): 6,
        }  # fmt: skip
        assert table[20, "0.5%"]["bic", "herding"] == 50.5 and table[10, "0%"]["ft", None] == 21.27
        claim = next(c for c in CLAIMS if (c.place, c.text) == ((10, "1%"), "ScaIL^herd > ScaIL"))
        published = {place: {0: of} for place, of in table.items()}
        assert hold(claim, published).difference == pytest.approx(83.2 - 81.1)


def test_seeds_with_unlike_methods_are_averaged_over_those_that_have_each():
    def row(method: str, state: int, top5: float, seed: int) -> Row:
        return Row(method, method, True, "random", 9, 9, "fine_tune", state, 2, top5, top5, 5, {}, [], {}, seed, 1)

    one = summarise([row("ft", s, 50, 1) for s in range(3)])
    two = summarise([row(m, s, v, 2) for m, v in (("ft", 60), ("bic", 70)) for s in range(3)])
    ft, bic = summarise_seeds({1: one, 2: two})["methods"]
    assert ft["top5"] == 55 and "seeds" not in ft
    assert bic["top5"] == 70 and bic["seeds"] == 1 and bic["top5_std"] is None
