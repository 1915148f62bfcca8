"""README, as a new user would go through it: every command and every piece of Python, in order, in a new folder."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import urllib.request

import pytest

from scail.networks.pretrained import has_pretrained
from scail.report.document import columns_of
from scail.report.grid import text_of
from scail.report.settings import group_by_settings
from scail.results.archive import Archive
from tests.docs.reading import ROOT, blocks, commands, run_line, shown

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
pretrained = pytest.mark.skipif(
    not has_pretrained("efficientnet-lite0"), reason="the pretrained weights are not installed"
)


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 110


def test_what_make_is_asked_for_can_be_made():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [words for kind, code in blocks("README.md") if kind == "sh" for words in commands(code)]
    asked = {words[1] for words in lines if words[0] == "make"}
    assert asked and asked <= targets


def test_its_table_is_what_the_kept_numbers_say():
    """Names, numbers, and what stands above the table."""
    (group,) = group_by_settings(Archive(ROOT / "results" / "cifar100-pretrained").all())
    ((_, summary),) = columns_of(group).items()
    best = {value: max(record[value] for record in summary["methods"]) for value in ("top5", "top1")}
    records = {record["label"]: record for record in summary["methods"]}
    rows = re.findall(r"^\| ([^|]+) \| ([\d.±*]+) \| ([\d.±*]+) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 6
    for name, *numbers in rows:
        record = records[name.removesuffix(", frozen")]
        assert numbers == [text_of(record, value, best[value]) for value in ("top5", "top1")], name
    configuration = group[0].configuration
    assert configuration["state_sizes"] == [10] * 4 and configuration["memory"] == 80 and len(group) == 3
    assert configuration["experiment"]["images_per_class"] == 30 and configuration["dataset"]["name"] == "cifar100"
    assert records["FT"]["top5"] < records["ScaIL"]["top5"] and records["FT"]["top1"] < records["ScaIL"]["top1"]
    frozen = [records[name] for name in ("NCM", "SLDA")]
    others = [record for name, record in records.items() if name not in ("NCM", "SLDA")]
    assert all(one[v] > other[v] for one in frozen for other in others for v in ("top5", "top1"))


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """All that was printed, in a folder with the photographs of the tutorial."""
    (photographs,) = (code for kind, code in blocks("docs/start/tutorial.md")[:1] if kind == "python")
    place, said = tmp_path_factory.mktemp("readme"), io.StringIO()
    with contextlib.chdir(place), contextlib.redirect_stdout(said):
        exec(photographs, {})
        for kind, code in blocks("README.md"):
            if kind == "python":
                exec(code, {})
            for words in commands(code) if kind == "sh" else ():
                if words[:2] == ["scail", "serve"]:
                    served(words)
                elif words[0] == "scail":
                    run_line(words)
        assert (place / "runs/digits/report.html").is_file()
    return said.getvalue()


def served(words: list[str]) -> None:
    """It begins, prints its address, and answers; at a port that is free."""
    command = [sys.executable, "-m", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
            with urllib.request.urlopen(f"{address}/v1/classes", timeout=60) as answer:
                assert "flower" in answer.read().decode()
        finally:
            server.terminate()


@pretrained
@pytest.mark.soak
def test_every_command_runs_and_prints_what_is_shown(printed):
    lines = shown("README.md")
    assert len(lines) >= 4
    for line in lines:
        assert line in printed
    assert "ScaIL" in printed and "estimated time" in printed
