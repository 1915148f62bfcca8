"""One self-contained HTML page from runs: everything is in it, nothing is fetched, and data never become markup."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from scail.report.figures_grid import series
from scail.report.grid import grid_table, is_recorded
from scail.report.learning_table import learning_table
from scail.report.measures_table import cost_table, measures_table
from scail.report.page_data import page_data
from scail.report.page_text import facts, headline, lead, provenance
from scail.report.protocol import Column, Comparison, what_differs
from scail.report.table import table_of
from scail.report.tabular import Tabular, to_html
from scail.results.measures import MEASURES

_SCRIPTS = ("dom.js", "charts.js", "scatter.js", "matrix.js", "sections.js", "measures.js", "memory.js", "main.js")
_SECTIONS = {
    "summary": "Summary", "grid": "All configurations", "results": "Results", "measures": "Measures", "cost": "Cost",
    "accuracy": "Accuracy", "past-new": "Past and new", "errors": "Errors", "origins": "Origins", "scores": "Scores",
    "weights": "Weights", "memory": "Memory", "confusion": "Confusion", "timing": "Time", "provenance": "Provenance",
}  # fmt: skip


def write_page(comparisons: Sequence[Comparison], notes: Sequence[str] = (), thumbnails: bool = True) -> str:
    """The page as text. `notes` stand at its top. `thumbnails`: whether it may hold small pictures of exemplars."""
    data = page_data(comparisons, thumbnails)
    configurations = [config for one in comparisons for config in one.configurations]
    several = len(configurations) > 1
    script = "(() => {\n'use strict';\n" + "\n".join(map(_file, _SCRIPTS)) + "})();"
    grid = "".join(_big_tables(n, one, configurations) for n, one in enumerate(comparisons))
    sections = {place: text for place, text in _SECTIONS.items() if place != "grid" or grid}
    return Template(_file("page.html")).substitute(
        policy=_policy(f"\n{script}\n"),
        title=escape(f"scail: {headline(comparisons)}"),
        style=_file("style.css"),
        script=script,
        navigation="".join(f'<a href="#{place}">{escape(text)}</a>' for place, text in sections.items()),
        kicker=escape(_kicker(configurations)),
        heading=escape(headline(comparisons)),
        lead=lead(configurations),
        statement=_statement(comparisons, notes),
        grid=f'<section id="grid"><h2>All configurations</h2>{grid}</section>' if grid else "",
        results_title="Results" if not several else "Results by configuration",
        results="".join(_result(n, config, comparisons, several) for n, config in enumerate(configurations)),
        provenance=provenance(comparisons),
        footer=f"Written by scail from results on disk. This page needs no network. {_pictures(data)}",
        data=embedded(data),
    )


def _pictures(data: Mapping[str, Any]) -> str:
    """Whoever passes the page on must know whether the images that were learned are in it."""
    if any(one["sheets"] or one["generated"] for run in data["runs"] for one in run["exemplars"]):
        return (
            "It holds small pictures of images that were learned, under Memory. "
            "<code>scail report --no-thumbnails</code> writes it without them."
        )
    return "It holds no pictures of images that were learned."


def _file(name: str) -> str:
    return (files("scail.report") / "page" / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Only this very script may run, and nothing may be fetched."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def embedded(value: object) -> str:
    """JSON that is safe inside a script element, whatever the texts in it say.

    >>> embedded({"name": "</script><b>"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _kicker(configurations: Sequence[Column]) -> str:
    runs = sum(len(config.runs) for config in configurations)
    counted = [(len(configurations), "configuration"), (runs, "run")]
    return "Class-incremental learning: " + ", ".join(f"{n} {name}{'s' if n > 1 else ''}" for n, name in counted)


def _statement(comparisons: Sequence[Comparison], notes: Sequence[str]) -> str:
    """What a reader must know before the numbers."""
    said = list(notes)
    if differing := what_differs(comparisons):
        items = "".join(f"<li>{escape(text)}</li>" for text in differing)
        count = len(comparisons)
        said_first = (
            f"These runs are of {count} protocols, and their numbers do not stand in one table. They differ in:"
        )
        return f'<div class="note">{said_first}<ul>{items}</ul></div>' + "".join(map(_note, said))
    return "".join(map(_note, said))


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _result(n: int, config: Column, comparisons: Sequence[Comparison], several: bool) -> str:
    """A configuration's facts and table."""
    of = next(one for one in comparisons if config in one.configurations)
    title = f"{of.title}: {config.title}"
    table = _with_keys(table_of(config.summary, title=f"Accuracies, {title}"), lambda key: f"{n}:{key}")
    tiles = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for name, value, more in facts(config)
    )
    heading = f"<h3>{escape(title)}</h3>" if several else ""
    more = "".join(
        f"<details><summary>{escape(one.title)}</summary>{to_html(one)}</details>"
        for one in (measures_table(config.summary), cost_table(config.summary), learning_table(config.summary))
        if one.rows
    )
    inside = f'<dl class="facts">{tiles}</dl>{"".join(map(_note, config.notes))}{to_html(table)}{more}'
    if not several or n < 3:
        return f"<article>{heading}{inside}</article>"
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _with_keys(table: Tabular, key: Callable[[str], str]) -> Tabular:
    """The table with its cells' keys as the page's data have them."""
    rows = [(label, [replace(c, key=key(c.key)) if c.key else c for c in row]) for label, row in table.rows]
    return replace(table, rows=rows)


def _big_tables(n: int, one: Comparison, configurations: Sequence[Column]) -> str:
    """The tables of a comparison with several configurations, and places for its figures."""
    if len(one.configurations) < 2:
        return ""
    numbers = {config.title: str(configurations.index(config)) for config in one.configurations}

    def key(text: str) -> str:
        title, method, select = text.rsplit("|", 2)
        return f"{numbers[title]}:{method}|{select}"

    shown = []
    for value, name in (("top5", "Top-5"), ("top1", "Top-1")):
        table = grid_table(value, f"{name} accuracies on {one.title}", one.columns, value)
        shown.append(f"<h4>{name}</h4>{to_html(_with_keys(table, key))}")
    for value, measure in [*MEASURES.items()][2:]:
        if is_recorded(one.columns, value):
            table = grid_table(value, f"{measure.title} on {one.title}", one.columns, value)
            opened = f"<summary>{escape(measure.title)}: {escape(measure.meaning)}</summary>"
            shown.append(f"<details>{opened}{to_html(_with_keys(table, key))}</details>")
    differing = "; ".join(f"{name}: {', '.join(values)}" for name, values in one.differing.items())
    said = _note(f"The configurations also differ in {differing}.") if differing else ""
    return f"<article><h3>{escape(one.title)}</h3>{said}{''.join(shown)}{_against(n, one)}</article>"


def _against(n: int, one: Comparison) -> str:
    """Places for accuracy against B and against Z."""
    found = [
        f'<div class="card" data-needs-script><h4>Accuracy against {vary}, {"Z" if vary == "memory" else "B"}={fixed}'
        f'</h4><div class="chart" data-against="{vary}" data-comparison="{n}" data-fixed="{fixed}"></div></div>'
        for vary, fixed in ((vary, escape(str(fixed))) for vary, fixed, _ in series(one))
    ]
    return f'<div class="pair">{"".join(found)}</div>' if found else ""
