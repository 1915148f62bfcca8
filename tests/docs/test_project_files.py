"""Files for other programs: the workflow, templates, citation and devcontainer name what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

import scail

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def test_the_workflow_calls_targets_that_there_are():
    jobs = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text(encoding="utf-8"))["jobs"]
    called = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {"make check", "make test", "make package", "make soak"} == set(called)
    assert {line.removeprefix("make ") for line in called} <= TARGETS


def test_the_devcontainer_calls_one_too():
    asked = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert asked["postCreateCommand"].removeprefix("make ") in TARGETS


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem
)
def test_forms_have_questions(form):
    asked = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert (
        asked["name"]
        and asked["description"]
        and all(one["id"] and one["attributes"]["label"] for one in asked["body"])
    )


def test_the_citation_is_of_this_version_and_of_the_paper():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == scail.__version__ and cited["license"] == "Apache-2.0"
    paper = cited["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Belouadah", "Popescu"] and paper["year"] == 2020
