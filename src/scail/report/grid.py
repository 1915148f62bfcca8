"""A grid's results in the layout of the paper's Table 1: methods by rows, configurations by columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scail.evaluation import gap_to_full
from scail.report.measures_table import best_of
from scail.report.table import about_mark, key_of, unlearned_mark, why_no_gap
from scail.report.tabular import Cell, Tabular
from scail.results.archive import Archive
from scail.results.measures import MEASURES
from scail.results.published import WITH_MEMORY, WITHOUT_MEMORY, published_label
from scail.results.run_record import read_cells, read_summary
from scail.results.summary import AVERAGING, summarise, summarise_seeds

if TYPE_CHECKING:
    from rich.table import Table

Columns = dict[str, Mapping[str, Any]]
"""Title of a configuration -> its summary, over seeds."""


def read_grid(out: Path, archive: Archive | None = None) -> dict[str, Columns]:
    """For each data set its configurations: from grid.json, and the archive or the summaries beside it."""
    seeds: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for cell in read_cells(out):
        kept = archive.get(cell["key"], cell["schedules"], cell.get("own", {})) if archive is not None else None
        measured = kept is not None and kept.parts
        summary = summarise(kept.rows) if kept is not None and measured else read_summary(out / cell["folder"])
        of_seed = seeds.setdefault((cell["dataset"], cell["configuration"]), {})
        of_seed[cell["seed"]] = joined(of_seed[cell["seed"]], summary) if cell["seed"] in of_seed else summary
    found: dict[str, Columns] = {}
    for (dataset, title), summaries in seeds.items():
        only, *more = summaries.values()
        found.setdefault(dataset, {})[title] = summarise_seeds(summaries) if more else only
    return found


def joined(one: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two runs of one configuration with other methods."""
    known = [(record["method"], record["select"]) for record in one["methods"]]
    new = [record for record in other["methods"] if (record["method"], record["select"]) not in known]
    return {**one, "methods": [*one["methods"], *new], "full": one["full"] or other["full"]}


def rows_of(columns: Columns, value: str = "top5") -> list[tuple[str, list[str]]]:
    """(method, its texts): one for each configuration, and G_IL over them where Full was trained; Full last."""
    by_label = {title: {label_of(r): r for r in summary["methods"]} for title, summary in columns.items()}
    paper = [*WITH_MEMORY.values(), *WITHOUT_MEMORY.values()]
    labels = list(dict.fromkeys(label for records in by_label.values() for label in records))
    labels.sort(key=lambda label: paper.index(label) if label in paper else len(paper))
    best = {title: best_of((r.get(value) for r in records.values()), value) for title, records in by_label.items()}
    rows = []
    for label in labels:
        records = {title: of.get(label) for title, of in by_label.items()}
        texts = [text_of(record, value, best[title]) for title, record in records.items()]
        rows.append((label, [*texts, _gap(columns, records, value) if value in _NAMES else ""]))
    if value in _NAMES and any(summary["full"] for summary in columns.values()):
        rows.append(("Full", [*(text_of(summary["full"], value, None) for summary in columns.values()), ""]))
    return rows


def label_of(record: Mapping[str, Any]) -> str:
    """The row of the paper's table; other selections are named, and methods beyond the paper have a star."""
    beyond = f"{record['label']}{'' if record['in_paper'] else '*'}"
    return published_label(record) or (f"{beyond}, {record['select']}" if record["select"] else beyond)


def text_of(record: Mapping[str, Any] | None, value: str, best: float | None = None) -> str:
    """A cell: the mean, its spread, a mark where it did not learn, and how many seeds where these are fewer than the
    column's; the best is bold."""
    if record is None or record.get(value) is None:
        return "–"
    spread = record.get(f"{value}_std")
    text = f"{record[value]:.1f}" + (f"±{spread:.1f}" if spread is not None else "") + unlearned_mark(record)
    if "seeds" in record:
        text += f" (n={record['seeds']})"  # fewer than the column's
    return f"**{text}**" if record[value] == best else text


def _gap(columns: Columns, records: Mapping[str, Mapping[str, Any] | None], value: str) -> str:
    fulls = [summary["full"][value] if summary["full"] else 100.0 for summary in columns.values()]
    measured = [record[value] for record in records.values() if record is not None]
    if len(measured) < len(fulls) or max(fulls) >= 100:
        return "–"  # over some of the configurations it would not compare
    return f"{gap_to_full(measured, fulls):.2f}"


def grid_caption(columns: Columns, value: str = "top5", reasons: bool = True) -> str:
    """What the numbers are; with `reasons`, why there is no G_IL where there is none."""
    first, *_ = columns.values()
    seeds = first.get("seeds", [])
    over = f"; mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else ""
    beyond = f"*: not in the paper{about_mark(columns.values())}"
    if value not in _NAMES:
        return f"{MEASURES[value].title}, percent; {MEASURES[value].meaning}{over}; {beyond}"
    gap = _about_gap(columns, value) if reasons else "G_IL over these configurations"
    return f"{_NAMES[value]}, percent; {AVERAGING}{over}; {gap}; {beyond}"


def _about_gap(columns: Columns, value: str) -> str:
    """What G_IL is over, or why there is none."""
    if any(not summary["full"] or summary["full"][value] >= 100 for summary in columns.values()):
        return f"G_IL is not there: {why_no_gap(columns.values(), value)}"
    return "G_IL over these configurations, of methods that were run in all of them"


_NAMES = {"top5": "top-5", "top1": "top-1"}
_FEW = 20
"""Classes. With so few of them, top-5 is close to 100 % whatever the method."""


def is_recorded(columns: Columns, value: str) -> bool:
    """Whether any method has this measure."""
    return any(record.get(value) is not None for of in columns.values() for record in of["methods"])


def telling(columns: Columns) -> str:
    """The accuracy that tells methods apart: top-5 as in the paper; top-1 where there are few classes."""
    classes = [record["per_state"][-1]["classes"] for of in columns.values() for record in of["methods"]]
    return "top1" if max(classes, default=_FEW) < _FEW else "top5"


def grid_table(name: str, title: str, columns: Columns, value: str = "top5") -> Tabular:
    """The big table, ready to be written in any form: a column for each configuration, and G_IL over them."""
    by_label = {config: {label_of(r): r for r in summary["methods"]} for config, summary in columns.items()}
    rows = []
    for label, texts in rows_of(columns, value):
        keys = [f"{config}|{key_of(of[label])}" if label in of else "" for config, of in by_label.items()]
        cells = [Cell(t.strip("*"), t.startswith("**"), key) for t, key in zip(texts, [*keys, ""], strict=True)]
        rows.append((label, cells))
    reference = value in _NAMES and any(summary["full"] for summary in columns.values())
    if value not in _NAMES:
        return Tabular(name, title, [*columns], [(label, of[:-1]) for label, of in rows], grid_caption(columns, value))
    return Tabular(name, title, [*columns, "G_IL"], rows, grid_caption(columns, value), reference=reference)


def rich_grid(dataset: str, columns: Columns) -> Table:
    """The table of one data set for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    value = telling(columns)
    table = Table(box=box.SIMPLE_HEAD, title=f"{dataset}, {_NAMES[value]}", title_justify="left")
    table.add_column("method")
    for title in (*columns, "G_IL"):
        table.add_column(title.replace(", ", "\n"), justify="right")
    for label, texts in rows_of(columns, value):
        table.add_row(label, *(Text(t.strip("*"), "bold" if t.startswith("**") else "") for t in texts))
    return table


def markdown_grid(grid: Mapping[str, Columns]) -> str:
    """All data sets: top-5, then top-1."""
    return "\n".join(
        _markdown(dataset, columns, value) for value in ("top5", "top1") for dataset, columns in grid.items()
    )


def _markdown(dataset: str, columns: Columns, value: str) -> str:
    table = "\n".join(markdown_rows(columns, value))
    return f"## {dataset}\n\n{table}\n\n{grid_caption(columns, value)}.\n"


def markdown_rows(columns: Columns, value: str) -> list[str]:
    """The lines of one table."""
    lines: Sequence[Sequence[str]] = [
        ["method", *columns, "G_IL"],
        ["---", *["---:"] * (len(columns) + 1)],
        *([label, *texts] for label, texts in rows_of(columns, value)),
    ]
    return markdown_lines(lines)


def markdown_lines(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines of a table."""
    return [f"| {' | '.join(row)} |" for row in cells]
