"""The cards of methods: what the table in the code and the kept numbers say of each stands above its prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import torch

from scail.heads import Evidence
from scail.methods import METHODS, Method
from scail.methods.probe import made_up_evidence
from scail.report.document import columns_of
from scail.report.grid import text_of
from scail.report.settings import group_by_settings
from scail.results.archive import Archive, Measurements
from scail.results.published import DATASETS

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "docs" / "reference" / "methods"
MARK = "<!-- the table of methods -->"
_TITLE = re.compile(r"^## (\w+)$", re.MULTILINE)
_FIELDS = {field.name for field in fields(Evidence)}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Facts behind the title of every card; the table of all of them where it is asked for."""
    if not page.file.src_uri.startswith("reference/methods/"):
        return markdown
    return _TITLE.sub(_with_facts, markdown).replace(MARK, "\n".join(_index()))


def card_places() -> dict[str, str]:
    """The page of each method that has a card."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(CARDS.glob("*.md"))}
    return {name: page for page, text in pages.items() for name in _TITLE.findall(text) if name in METHODS}


def _index() -> Iterator[str]:
    yield "| method | name | what it does | exemplars | top-1, digits |"
    yield "|---|---|---|---|---:|"
    places = card_places()
    for name, method in METHODS.items():
        digits = [text for setting, _, text in measured(name) if setting.startswith("digits")]
        label = method.label + "*" * (not method.in_paper)
        title = f"[{label}]({places[name]}#{name})" if name in places else label
        yield f"| {title} | `{name}` | {method.summary} | {_exemplars(method)} | {(digits or ['–'])[0]} |"
    orders = max((len(summary["seeds"]) for setting, summary in _kept() if setting.startswith("digits")), default=0)
    yield "\n*: not in the ScaIL paper. –: not measured there. †: in some state the network did not learn."
    yield f"Top-1 is the mean over the incremental states of digits, in {orders} class order(s)."


def _with_facts(found: re.Match[str]) -> str:
    """The title as it is shown in tables, with the name as its anchor, and the facts."""
    if (name := found[1]) not in METHODS:
        return found[0]
    method = METHODS[name]
    schedules = ", ".join(f"[{one.replace('_', '-')}](../settings.md#schedules)" for one in method.kind.schedules)
    rows = [
        ("name", f"`{name}`" + ("" if method.in_paper else ", not in the ScaIL paper")),
        ("trainer", f"`{method.trainer_name}`" + (f"; schedules: {schedules}" if schedules else "")),
        ("exemplars", _exemplars(method)),
        ("head", f"[`{method.head.__name__}`](../python/heads.md#{method.head.__module__}.{method.head.__name__})"),
        ("it reads", ", ".join(f"`{one}`" for one in (*_read(method), *method.carried))),
    ]
    for setting, cost, accuracy in measured(name):
        rows += [("top-1", f"{accuracy}: {setting}")] + ([("its cost", cost)] if cost else [])
    table = "\n".join(f"| {title} | {text} |" for title, text in rows if text)
    what = method.summary[0].upper() + method.summary[1:]
    return f"## {method.label} {{#{name}}}\n\n{what}.\n\n| | |\n|---|---|\n{table}\n"


def _exemplars(method: Method) -> str:
    if method.kind.at_once or method.without_memory:
        return "none"
    if method.ignores_memory:
        return "not read"
    return (method.select_name or "random or herding") + (", needed" if method.needs_exemplars else "")


def _read(method: Method) -> list[str]:
    """The values of the evidence that its head reads, tried on made-up numbers."""
    seen = set[str]()

    class Watched(Evidence):
        def __getattribute__(self, name: str) -> Any:
            if name in _FIELDS:
                seen.add(name)
            return super().__getattribute__(name)

    plain = made_up_evidence(method.kind.frozen)
    made_up = {"svm_weight": plain.weight_CD, "svm_bias": plain.bias_C, "mass_C": torch.ones_like(plain.bias_C)}
    carried = {name: made_up.get(name, torch.ones(())) for name in method.carried}
    method.head(Watched(**vars(plain)), **carried)
    return [name for name in vars(plain) if name in seen]


def measured(name: str) -> list[tuple[str, str, str]]:
    """Of every kept setting in which it was run: the setting, what it cost there, and top-1 with its spread."""
    found = []
    for setting, summary in _kept():
        full = [{**summary["full"], "method": "full", "memory": 0, "per_state": []}] if summary["full"] else []
        found += [
            (setting + (f", {one['select']}" if METHODS[name].select is None and one.get("select") else ""),
             _cost(one.get("cost")), text_of(one, "top1"))
            for one in (*summary["methods"], *full) if one["method"] == name
        ]  # fmt: skip
    return found


def _cost(cost: dict[str, Any] | None) -> str:
    if not cost:
        return ""
    return (
        f"{cost['bytes_kept'] / 1000:,.1f} kB kept, {cost['image_passes']:,.0f} images gone through, "
        f"{cost['parameters']:,.0f} parameters"
    )


@cache
def _kept() -> list[tuple[str, Any]]:
    """Every kept setting with its summary over seeds; digits first."""
    folders = sorted({path.parent for path in (ROOT / "results").glob("*/*.jsonl")})
    groups = [group for folder in folders for group in group_by_settings(Archive(folder).all())]
    named = [(_setting(group[0], title), summary) for group in groups for title, summary in columns_of(group).items()]
    return sorted(named, key=lambda one: not one[0].startswith("digits"))


def _setting(one: Measurements, title: str) -> str:
    experiment, name = one.configuration["experiment"], one.configuration["dataset"]["name"]
    classes = len(one.configuration["class_order"])
    return f"{DATASETS.get(name, name)}, {classes} classes, {experiment['network']}, {title}"
