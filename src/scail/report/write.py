"""Writes a report: the page, the figures for papers, and the tables; from results on disk only."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scail.report.drawing import save
from scail.report.figures import PAPERS, write_figures
from scail.report.figures_grid import draw_series, series
from scail.report.grid import grid_table, is_recorded
from scail.report.learning_table import learning_table
from scail.report.measures_table import cost_table, matrix_csv, measures_table, states_csv
from scail.report.page_html import write_page
from scail.report.protocol import Comparison, compare
from scail.report.runs import read_report_run, read_runs
from scail.report.table import markdown_table, table_of
from scail.report.tabular import FORMS, Tabular, to_markdown
from scail.results.marks import marks_of
from scail.results.measures import MEASURES
from scail.results.own_files import check_links
from scail.results.results import Results
from scail.results.run_record import read_folders, read_summary
from scail.storage.atomic import LEFT, sweep, write_text
from scail.storage.flushing import flush_below, make_folder
from scail.storage.lock import claim


def write_report(
    runs: Results | str | Path | Sequence[Results | str | Path],
    out: str | Path | None = None,
    formats: Sequence[str] = ("pdf", "svg", "png"),
    thumbnails: bool = True,
) -> Path:
    """Page, figures and tables of runs (results, or folders of `scail run` and `scail grid`); gives the page's path.

    `out`: where they go; None: into the run's own folder, if there is only one. No `formats`: no figures. Without
    `thumbnails` the page shows no pictures.
    """
    several = [runs] if isinstance(runs, Results | str | Path) else [*runs]
    places = [one.directory if isinstance(one, Results) else Path(one) for one in several]
    if not places:
        raise ValueError("no run was given; give results, or folders of `scail run` or `scail grid`")
    if out is None and len(places) > 1:
        raise ValueError("several runs: say where the report goes, with out=")
    out = places[0] if out is None else Path(out)
    if places != [out]:  # of a folder that is read, what is wrong with it is told first
        check_place(out)
    comparisons = compare(read_runs(places))
    check_place(out)
    page = write_page(comparisons, unfinished(places), thumbnails)
    make_folder(out)
    for folder in (out, out / "tables", out / "figures"):
        if folder.is_dir():
            sweep(folder, after=LEFT)  # several reports may be written at once
    write_text(out / "report.html", page)  # first: it is what says that the folder is a report's
    (out / "tables").mkdir(exist_ok=True)
    for table in tables_of(comparisons):
        for ending, form in FORMS.items():
            write_text(out / "tables" / f"{table.name}.{ending}", form(table))
    _write_states(comparisons, out / "tables")
    _draw(comparisons, out / "figures", formats)
    _write_table(out)
    return out / "report.html"


def write_end(run: Path, seeds: Sequence[Path] = (), thumbnails: bool = True) -> Path:
    """What a run leaves when it ends: the paper's figures (of each seed), the page, then the table; gives the page.

    Where the table is, all of it is there.
    """
    for one in seeds or [run]:
        write_figures(read_report_run(one), one / "figures", ["png"], PAPERS)
    page = write_page_of(run, thumbnails)
    flush_below(run)  # what is said to be there is there, also after a power failure
    _write_table(run)
    return page


def _write_table(run: Path) -> None:
    """The table of a run, or of its seeds together, in its own folder; a grid's or a comparison's is another."""
    if (run / "summary.json").is_file():
        summary = read_summary(run)
        more = [table for form in _MORE.values() if (table := form(summary)).rows]
        texts = [markdown_table(summary), *(f"## {table.title}\n\n{to_markdown(table)}" for table in more)]
        write_text(run / "table.md", "\n".join(texts))


def write_page_of(place: Path, thumbnails: bool = True) -> Path:
    """The page alone, into a run's or a grid's own folder."""
    page = place / "report.html"
    write_text(page, write_page(compare(read_runs([place])), unfinished([place]), thumbnails))
    return page


def check_place(out: Path) -> None:
    """A folder with other people's files is left alone."""
    foreign = "holds files that are not a scail run or report; give a new directory"
    claim(out, f"--out {out}", marks_of(out), foreign, make=False)
    check_links(out, f"--out {out}")


def unfinished(places: Sequence[Path]) -> list[str]:
    """What of a grid is not in its folder: still to be run, or measured elsewhere."""
    notes = []
    for path in sorted(path for place in places for path in Path(place).rglob("grid.json")):
        try:
            cells = read_folders(path.parent)
        except ValueError as error:
            raise ValueError(f"{error}; the same `scail grid` command writes it again") from error
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
            title = f"{one.title}: {config.title}"
            found.append(table_of(config.summary, name, title))
            alone = start if not several else f"{name}-"
            more = [form(config.summary, f"{alone}{of}", title) for of, form in _MORE.items()]
            found += [table for table in more if table.rows]
        if several:
            shown = [v for v in MEASURES if is_recorded(one.columns, v)]
            found += [grid_table(f"{start}all-{v}", f"{one.title}: {v}", one.columns, v) for v in shown]
    return _named_apart(found)


_MORE = {"measures": measures_table, "cost": cost_table, "learning": learning_table}


def _write_states(comparisons: Sequence[Comparison], folder: Path) -> None:
    """After each state: states.csv, accuracies of every method; matrix.csv, on the classes of each state."""
    configurations = [(one.title, config) for one in comparisons for config in one.configurations]
    for name, form in (("states", states_csv), ("matrix", matrix_csv)):
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for n, (data, config) in enumerate(configurations):
            titles, lines = form(config.summary)
            if n == 0:
                writer.writerow(["data", "configuration", *titles])
            writer.writerows([data, config.title, *line] for line in lines)
        write_text(folder / f"{name}.csv", out.getvalue())


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
