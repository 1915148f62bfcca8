"""Reports from run directories: protocols, tables in every form, figures, bad input."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from scail.cli.main import main
from scail.report.drawing import FORMATS
from scail.report.figures import write_figures
from scail.report.page_data import page_data
from scail.report.page_html import embedded, write_page
from scail.report.protocol import compare, what_differs
from scail.report.runs import read_report_run, read_runs
from scail.report.table import table_of
from scail.report.tabular import Cell, Tabular, to_csv, to_html, to_latex, to_markdown
from scail.report.write import tables_of, unfinished
from scail.results.own_files import clear
from scail.results.run_directory import RunDirectory, Sheet
from tests.report.report_runs import make_run


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def embedded_in(path: Path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


class TestProtocols:
    def test_seeds_of_one_protocol_are_averaged(self, tmp_path):
        runs = read_runs([make_run(tmp_path / f"s{n}", seed=n, shift=n) for n in (1, 2, 3)])
        (one,) = compare(runs)
        (config,) = one.configurations
        assert config.summary["seeds"] == [1, 2, 3] and not config.notes and not what_differs([one])
        values = [run.summary["methods"][0]["top1"] for run in runs]
        assert config.summary["methods"][0]["top1"] == pytest.approx(np.mean(values))
        assert config.summary["methods"][0]["top1_std"] == pytest.approx(np.std(values, ddof=1))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"dataset": {"fingerprint": "beef"}}, "data: "),
            ({"dataset": {"split": "20 % held out"}}, "test images: "),
            ({"experiment": {"class_order": "icarl"}}, "class order: "),
            ({"sizes": (3, 3, 3)}, "classes: "),
        ],
    )
    def test_unlike_protocols_have_tables_of_their_own_and_the_page_says_why(self, tmp_path, changes, said):
        places = [make_run(tmp_path / "a"), make_run(tmp_path / "b", **changes)]
        comparisons = compare(read_runs(places))
        assert len(comparisons) == 2
        assert any(text.startswith(said) for text in what_differs(comparisons))
        page = write_page(comparisons)
        assert "do not stand in one table" in page and page.count('aria-label="Accuracies, ') == 2

    def test_another_averaging_is_another_protocol(self, tmp_path):
        places = [make_run(tmp_path / "a"), make_run(tmp_path / "b")]
        summary = json.loads((places[1] / "summary.json").read_text())
        (places[1] / "summary.json").write_text(json.dumps(summary | {"averaging": "mean over all states"}))
        (text,) = what_differs(compare(read_runs(places)))
        assert text.startswith("averaging: ") and "mean over all states" in text

    def test_memory_states_and_settings_are_columns_of_one_table(self, tmp_path):
        make_run(tmp_path / "a"), make_run(tmp_path / "b", memory=10)
        make_run(tmp_path / "c", sizes=(3, 3)), make_run(tmp_path / "d", experiment={"candidates": 3})
        (one,) = compare(read_runs([tmp_path]))
        titles = [config.title for config in one.configurations]
        found = [(2, 20, 10), (3, 20, 10), (3, 20, 3), (3, 10, 10)]
        assert titles == [f"Z={z}, B={b}, candidates {c}" for z, b, c in found]
        assert one.differing == {"candidates": ("10", "3")}
        assert "also differ in candidates: 10, 3" in write_page([one])

    def test_a_setting_that_an_older_run_does_not_name_had_its_default(self, tmp_path):
        make_run(tmp_path / "new", seed=1), make_run(tmp_path / "old", seed=2)
        config = json.loads((tmp_path / "old" / "config.json").read_text())
        del config["experiment"]["few_negatives"]
        (tmp_path / "old" / "config.json").write_text(json.dumps(config))
        (one,) = compare(read_runs([tmp_path]))
        assert not one.differing and [column.summary["seeds"] for column in one.configurations] == [[1, 2]]

    def test_methods_of_two_runs_of_one_seed_are_joined_and_contradictions_named(self, tmp_path):
        make_run(tmp_path / "a", methods=("ft",)), make_run(tmp_path / "b", methods=("scail",))
        make_run(tmp_path / "c", methods=("ft",), shift=1)
        ((config,),) = [one.configurations for one in compare(read_runs([tmp_path]))]
        assert [record["method"] for record in config.summary["methods"]] == ["ft", "ft", "scail", "scail"]
        assert "Seed 1 was run twice with other numbers for FT" in config.notes[0]

    def test_methods_that_not_every_seed_has_are_left_out_of_the_means(self, tmp_path):
        make_run(tmp_path / "a", methods=("ft", "scail")), make_run(tmp_path / "b", methods=("scail",), seed=2)
        ((config,),) = [one.configurations for one in compare(read_runs([tmp_path]))]
        assert {record["method"] for record in config.summary["methods"]} == {"scail"}
        assert "Not every seed has ft (herding), ft (random)" in config.notes[0]

    def test_a_run_that_is_named_twice_counts_once(self, tmp_path):
        make_run(tmp_path / "a")
        assert len(read_runs([tmp_path, tmp_path / "a"])) == 1


class TestTables:
    @pytest.fixture
    def table(self):
        rows = [("FT_init^L2", [Cell("50.0±1.0"), Cell("-2.00")]), ("=1+1 & <b>|", [Cell("61.0±2.0", True), Cell("–")])]
        return Tabular("t", "A <title>", ["top-5", "G_IL"], rows, "percent; 2 % of all", ["random exemplars"])

    def test_latex(self, table):
        text = to_latex(table)
        assert r"FT$_{\mathrm{init}}^{\mathrm{L2}}$ & 50.0$\pm$1.0 & -2.00 \\" in text
        assert r"\textbf{61.0$\pm$2.0} & --" in text and r"\& <b>" in text and r"2 \% of all" in text
        assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
        assert r"\multicolumn{2}{c}{random exemplars}" in text and r"\cmidrule(lr){2-3}" in text

    @pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
    def test_latex_compiles(self, table, tmp_path):
        body = to_latex(table)
        (tmp_path / "t.tex").write_text(
            r"\documentclass{article}\usepackage{booktabs}\usepackage[T1]{fontenc}\begin{document}"
            + body + r"\end{document}"
        )  # fmt: skip
        done = subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]

    def test_csv(self, table):
        lines = list(csv.reader(io.StringIO(to_csv(table))))
        assert lines[0] == ["method", "top-5, random", "top-5, random, std", "G_IL, random"]
        assert lines[1] == ["FT_init^L2", "50.0", "1.0", "-2.00"]
        assert lines[2] == ["'=1+1 & <b>|", "61.0", "2.0", ""]

    def test_markdown(self, table):
        text = to_markdown(table)
        assert "| **61.0±2.0** |" in text and r"<b>\|" in text and text.endswith("Percent; 2 % of all.\n")

    def test_html_escapes_everything(self, table):
        text = to_html(table)
        assert "<b>" not in text and "&lt;b&gt;" in text and "A &lt;title&gt;" in text
        assert "FT<sub>init</sub><sup>L2</sup>" in text and "<strong>61.0±2.0</strong>" in text

    def test_every_form_has_every_number_of_the_summary(self, tmp_path):
        summary = read_report_run(make_run(tmp_path / "run", methods=("ft", "scail", "ft_wa"))).summary
        table = table_of(summary)
        for form in (to_latex, to_csv, to_markdown, to_html):
            text = form(table)
            for record in summary["methods"]:
                assert f"{record['top5']:.1f}" in text and f"{record['top1']:.1f}" in text


class TestCommand:
    def test_one_run(self, tmp_path, capsys):
        run = make_run(tmp_path / "run")
        code, out, _ = call(capsys, "report", run, "--formats", "svg")
        assert code == 0 and str(run / "report.html") in out
        assert {path.name for path in (run / "tables").iterdir()} == {
            *("table.md", "table.tex", "table.csv", "measures.md", "measures.tex", "measures.csv"),
            *("states.csv", "matrix.csv"),
        }
        names = {"accuracy", "past_new", "errors", "origins", "confusion", "scores", "weights", "memory", "timing"}
        assert {path.name for path in (run / "figures").iterdir()} == {f"{name}.svg" for name in names}

    def test_figures_come_in_every_format_and_are_the_same_each_time(self, tmp_path):
        run = read_report_run(make_run(tmp_path / "run", full=False))
        one, two = (write_figures(run, tmp_path / name, FORMATS, ("weights",)) for name in "ab")
        starts = {".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<?xml"}
        assert [path.suffix for path in one] == [".pdf", ".svg", ".png"]
        for path, again in zip(one, two, strict=True):
            assert path.read_bytes().startswith(starts[path.suffix]) and path.read_bytes() == again.read_bytes()

    @pytest.mark.soak
    def test_a_grid_has_the_big_table_and_accuracy_against_memory_and_states(self, tmp_path, capsys):
        cells = [{"folder": "not-yet"}]
        for sizes, memory, seed in (((3, 3), 20, 1), ((2, 2, 2), 20, 1), ((2, 2, 2), 10, 1), ((2, 2, 2), 10, 2)):
            cells.append({"folder": f"z{len(sizes)}-b{memory}-{seed}"})
            place = tmp_path / "grid" / cells[-1]["folder"]
            make_run(place, sizes=sizes, memory=memory, seed=seed, shift=memory / 10 + seed, methods=("scail",))
        (tmp_path / "grid" / "grid.json").write_text(json.dumps({"cells": cells}))
        code, _, _ = call(capsys, "report", tmp_path / "grid", "--out", tmp_path / "out", "--formats", "png")
        assert code == 0
        names = {path.name for path in (tmp_path / "out" / "tables").glob("*.md")}
        assert {"all-top5.md", "all-top1.md", "all-last_top1.md", "all-harmonic_mean.md"} <= names
        assert {"Z2-B20.md", "Z3-B10.md", "Z3-B20.md", "Z3-B20-measures.md"} <= names
        table = (tmp_path / "out" / "tables" / "all-top5.md").read_text()
        assert "| Z=2, B=20 | Z=3, B=20 | Z=3, B=10 | G_IL |" in table and "±" in table
        figures = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
        assert figures == {"Z2-B20", "Z3-B20", "Z3-B10", "against-memory-z3.png", "against-states-b20.png"}
        page = (tmp_path / "out" / "report.html").read_text()
        assert "1 of 5 configurations of" in page
        assert 'data-against="memory" data-comparison="0" data-fixed="3"' in page
        assert 'data-against="states" data-comparison="0" data-fixed="20"' in page

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["{}/none"], "no finished run there"),
            (["{}/run", "{}/run2"], "--out DIR"),
            (["{}/run", "--out", "{}/file"], "is a file"),
            (["{}/run", "--out", "{}/foreign"], "not a scail run or report"),
            (["{}/run", "--formats", "bmp"], "unknown bmp"),
            (["{}/damaged"], "results.jsonl, line 1: not JSON"),
            (["{}/empty"], "config.json: has no experiment"),
        ],
    )
    def test_mistakes(self, tmp_path, capsys, arguments, said):
        for name in ("run", "run2", "damaged", "empty"):
            make_run(tmp_path / name)
        (tmp_path / "damaged" / "results.jsonl").write_text('{"method": "ft"')
        (tmp_path / "empty" / "config.json").write_text("{}")
        (tmp_path / "file").write_text("mine")
        (tmp_path / "foreign").mkdir()
        (tmp_path / "foreign" / "thesis.tex").write_text("mine")
        code, _, err = call(capsys, "report", *(argument.format(tmp_path) for argument in arguments))
        assert code == 2 and said in err and "Traceback" not in err
        assert (tmp_path / "file").read_text() == "mine" and len(list((tmp_path / "foreign").iterdir())) == 1

    def test_a_damaged_confusion_file_or_grid_is_named(self, tmp_path, capsys):
        run = make_run(tmp_path / "run")
        (run / "confusion" / "ft-random.npz").write_bytes(b"no zip")
        code, _, err = call(capsys, "report", run)
        assert code == 2 and "ft-random.npz: damaged" in err
        (tmp_path / "grid.json").write_text("{")
        with pytest.raises(ValueError, match=r"grid\.json: not JSON"):
            unfinished([tmp_path])

    def test_elsewhere_the_run_is_left_as_it_is_and_the_page_is_the_same_each_time(self, tmp_path, capsys):
        run = make_run(tmp_path / "run")
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        for name in "ab":
            assert call(capsys, "report", run, "--out", tmp_path / name, "--formats", "none")[0] == 0
        assert (tmp_path / "a" / "report.html").read_bytes() == (tmp_path / "b" / "report.html").read_bytes()
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


class TestPage:
    def test_an_old_run_directory_gives_a_page_that_says_what_is_missing(self, tmp_path):
        run = make_run(tmp_path / "run")
        for name in ("memory.jsonl", "timing.jsonl", "weights.jsonl"):
            (run / name).unlink()
        shutil.rmtree(run / "confusion")
        config = json.loads((run / "config.json").read_text())
        del config["dataset"]["split"]
        (run / "config.json").write_text(json.dumps(config))
        page = write_page(compare(read_runs([run])))
        said = "Not recorded in every run: confusion matrices, exemplars per class, ranked weights, time of each state"
        assert said in page and "not recorded" in page

    def test_texts_from_data_never_become_markup(self, tmp_path):
        evil = "</script><script>alert(1)</script>\u2028<img src=x onerror=alert(2)>"
        names = [evil, "b", "c", "d", "e", "f"]
        run = make_run(
            tmp_path / "run", names=names, dataset={"name": evil}, command=["scail", "run", "--dataset", evil]
        )
        page = write_page(compare(read_runs([run])))
        assert "<script>alert" not in page and "<img src=x" not in page and "\u2028" not in embedded(names)
        assert page.count("<script") == 2 and page.count("</script>") == 2
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        assert embedded_in(tmp_path / "page.html")["runs"][0]["classNames"][0] == evil

    def test_texts_of_a_summary_never_become_markup(self, tmp_path):
        run = make_run(tmp_path / "run")
        summary = json.loads((run / "summary.json").read_text())
        for record in summary["methods"]:
            record["label"] = "<img src=x>"
        (run / "summary.json").write_text(json.dumps(summary))
        assert "<img src=x>" not in write_page(compare(read_runs([run])))

    @pytest.mark.parametrize("name", ["memory.jsonl", "weights.jsonl", "timing.jsonl"])
    def test_a_damaged_line_is_a_clear_error(self, name, tmp_path):
        run = make_run(tmp_path / "run")
        with (run / name).open("a", encoding="utf-8") as file:
            file.write("{}\n")
        with pytest.raises(ValueError, match=rf"{name}, line \d: has no trainer"):
            read_report_run(run)

    def test_the_data_hold_what_was_measured(self, tmp_path):
        run = read_report_run(make_run(tmp_path / "run"))
        found = page_data(compare([run]))
        (mine,) = found["runs"]
        line = next(one for one in mine["lines"] if one["key"] == "scail|herding")
        rows = [row for row in run.rows if (row.method, row.select) == ("scail", "herding")]
        assert line["top1"] == pytest.approx([row.top1 for row in rows], abs=0.01)
        assert line["errors"] == [list(row.errors.values()) for row in rows]
        assert mine["exemplars"][0]["kept"] == [[[10, 2]], [[5, 4]], [[4, 2], [3, 4]]]
        assert mine["confusion"]["ft|random"]["level"] == "classes"
        assert [weights["state"] for weights in mine["weights"][0]["states"]] == [1, 2]

    def test_the_command_that_made_it(self, tmp_path):
        run = read_report_run(make_run(tmp_path / "a", command=["/usr/bin/scail", "run", "--out", "my runs"]))
        assert run.command == "scail run --out 'my runs'"
        assert read_report_run(make_run(tmp_path / "b", command=["my_script.py"])).command is None

    def test_a_sheet_outside_the_run_is_not_read(self, tmp_path):
        run = make_run(tmp_path / "run", thumbnail=b"inside")
        (tmp_path / "secret.png").write_bytes(b"outside")
        text = (run / "memory.jsonl").read_text().replace("exemplars/fine_tune-herding/state_0.png", "../secret.png")
        (run / "memory.jsonl").write_text(text)
        mine = page_data(compare(read_runs([run])))["runs"][0]["exemplars"][0]["sheets"]
        assert 0 not in mine and len(mine) == 2

    def test_a_page_says_whether_it_holds_pictures_and_can_be_written_without(self, tmp_path, capsys):
        run = make_run(tmp_path / "run", thumbnail=b"a picture of someone")
        said, held = "It holds small pictures of images that were learned", base64.b64encode(b"a picture of someone")
        for options, there in (((), True), (("--no-thumbnails",), False)):
            with pytest.raises(SystemExit) as end:
                main(["report", str(run), "--out", str(tmp_path / f"page{there}"), "--formats", "none", *options])
            page = (tmp_path / f"page{there}" / "report.html").read_text(encoding="utf-8")
            assert end.value.code == 0 and (said in page) == there == (held.decode() in page)
            assert ("It holds no pictures of images that were learned." in page) != there

    def test_generated_images_are_on_the_page_and_in_the_runs_folder(self, tmp_path):
        run = make_run(tmp_path / "run")
        (run / "memory.jsonl").write_text("")
        folder, where = RunDirectory(run), {"trainer": "fine_tune", "select": "herding", "memory": 20, "state": 0}
        sheet = Sheet(b"made up", "png", 2, 6, 8, real=3)
        folder.add_memory({**where, "kept": [[10, 2]], "recognised": [50.0, 99.0]}, None, sheet)
        assert (run / "generated" / "fine_tune-herding" / "state_0.png").read_bytes() == b"made up"
        comparisons = compare(read_runs([run]))
        (mine,) = page_data(comparisons)["runs"][0]["exemplars"]
        assert mine["recognised"] == {0: [50.0, 99.0]} and mine["sheets"] == {}
        assert mine["generated"][0]["real"] == 3
        assert mine["generated"][0]["src"].endswith(base64.b64encode(b"made up").decode())
        assert "It holds small pictures" in write_page(comparisons)
        without = page_data(comparisons, thumbnails=False)["runs"][0]["exemplars"][0]
        assert without["generated"] == {}
        clear(run, logs=True)
        assert not (run / "generated").exists()

    def test_tables_never_overwrite_each_other(self, tmp_path):
        for n, value in enumerate(("a/b", "a-b")):
            make_run(tmp_path / str(n), experiment={"network": value})
        names = [table.name for table in tables_of(compare(read_runs([tmp_path])))]
        assert len(set(names)) == len(names) >= 4
