"""Writes a report: the page, the figures for papers, and the tables; from results on disk only."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scail.report.drawing import save
from scail.report.figures import write_figures
from scail.report.figures_grid import draw_series, series
from scail.report.grid import grid_table
from scail.report.page_html import write_page
from scail.report.protocol import Comparison, compare
from scail.report.runs import read_runs
from scail.report.table import table_of
from scail.report.tabular import FORMS, Tabular
from scail.storage.atomic import write_text
from scail.storage.lock import claim

_OURS = {"report.html", "config.json", "grid.json"}
"""A folder that holds one of these is a run's, a grid's or a report's."""


def write_report(places: Sequence[Path], out: Path, formats: Sequence[str], thumbnails: bool = True) -> Path:
    """Page, figures and tables of all runs at these places, into `out`; gives the page's path."""
    check_place(out)
    comparisons = compare(read_runs(places))
    page = write_page(comparisons, unfinished(places), thumbnails)
    out.mkdir(parents=True, exist_ok=True)
    (out / "tables").mkdir(exist_ok=True)
    for table in tables_of(comparisons):
        for ending, form in FORMS.items():
            write_text(out / "tables" / f"{table.name}.{ending}", form(table))
    _draw(comparisons, out / "figures", formats)
    write_text(out / "report.html", page)
    return out / "report.html"


def write_page_of(place: Path, thumbnails: bool = True) -> Path:
    """The page alone, into a run's or a grid's own folder."""
    page = place / "report.html"
    write_text(page, write_page(compare(read_runs([place])), unfinished([place]), thumbnails))
    return page


def check_place(out: Path) -> None:
    """A folder with other people's files is left alone."""
    foreign = "holds files that are not a scail run or report; give a new directory"
    claim(out, f"--out {out}", _OURS, foreign, make=False)


def unfinished(places: Sequence[Path]) -> list[str]:
    """What of a grid is not in its folder: still to be run, or measured elsewhere."""
    notes = []
    for path in sorted(path for place in places for path in Path(place).rglob("grid.json")):
        try:
            cells = [cell["folder"] for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: damaged ({error}); the same `scail grid` command writes it again") from error
        missing = [cell for cell in cells if not (path.parent / cell / "summary.json").is_file()]
        if missing:
            named = f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}"
            which = f"{len(missing)} of {len(cells)} configurations of {path.parent} are not here"
            notes.append(f"{which} (not finished, or measured elsewhere): {named}.")
    return notes


def tables_of(comparisons: Sequence[Comparison]) -> list[Tabular]:
    """The paper's table of each configuration, and the big ones where there are several."""
    found = []
    for one in comparisons:
        start = "" if len(comparisons) == 1 else f"{slug(one.title)}-"
        several = len(one.configurations) > 1
        for config in one.configurations:
            name = f"{start}{slug(config.title)}" if several else f"{start}table"
            found.append(table_of(config.summary, name, f"{one.title}: {config.title}"))
        if several:
            found += [grid_table(f"{start}all-{v}", f"{one.title}: {v}", one.columns, v) for v in ("top5", "top1")]
    return _named_apart(found)


def _named_apart(tables: Sequence[Tabular]) -> list[Tabular]:
    """Titles that differ may have the same slug: no table overwrites another."""
    taken, found = set[str](), []
    for table in tables:
        name, n = table.name, 1
        while name in taken:
            n += 1
            name = f"{table.name}-{n}"
        taken.add(name)
        found.append(replace(table, name=name))
    return found


def _draw(comparisons: Sequence[Comparison], folder: Path, formats: Sequence[str]) -> None:
    """Figures of each configuration, from its first run; and those of the comparisons."""
    if not formats:
        return
    configurations = [(one, config) for one in comparisons for config in one.configurations]
    for one, config in configurations:
        start = "" if len(comparisons) == 1 else f"{slug(one.title)}-"
        own = folder / f"{start}{slug(config.title)}" if len(configurations) > 1 else folder
        write_figures(config.runs[0], own, formats)
    folder.mkdir(parents=True, exist_ok=True)
    for one in comparisons:
        for vary, fixed, mine in series(one):
            start = "" if len(comparisons) == 1 else f"{slug(one.title)}-"
            other = "z" if vary == "memory" else "b"
            save(draw_series(vary, fixed, mine), folder, f"{start}against-{vary}-{other}{fixed}", formats)


def slug(text: str) -> str:
    """A text as a file's name.

    >>> slug("Z=5, B=28"), slug("../x")
    ('Z5-B28', 'x')
    """
    return re.sub(r"[^\w.]+", "-", text.replace("=", "")).strip("-.") or "unnamed"
