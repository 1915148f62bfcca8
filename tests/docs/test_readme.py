"""README: how long it is, and that its table is what was measured (its commands: test_pages.py)."""

from __future__ import annotations

import re

from scail.methods import METHODS
from scail.report.document import columns_of
from scail.report.grid import text_of
from scail.report.settings import group_by_settings
from scail.results.archive import Archive
from tests.docs.reading import ROOT, blocks, commands

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


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


def test_it_names_every_method():
    part = re.search(r"^## Methods\n(.*?)^## ", TEXT, re.MULTILINE | re.DOTALL)[1]
    named = {name.strip() for name in re.split(r"[,.;:]|\*\*| or ", part.replace("\n", " "))}
    assert [method.label for method in METHODS.values() if method.label not in named] == []
