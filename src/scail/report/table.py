"""The paper's table from a summary: methods by rows, top-5, top-1 and G_IL for each way of choosing exemplars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = (("top5", "top-5"), ("top1", "top-1"), ("gap_top5", "G_IL"))
_SELECTIONS = {"random": "random", "herding": "herding", None: "no memory"}
"""How exemplars were chosen."""


@dataclass(frozen=True)
class Cell:
    """A number as text, and whether it is the best of its column."""

    text: str
    best: bool = False


def selections(summary: Mapping[str, Any]) -> list[str | None]:
    """The ways of choosing exemplars that the summary has; without a memory there is none to name."""
    chosen = [s for s in _SELECTIONS if s and any(record["select"] == s for record in summary["methods"])]
    return [*chosen] or [None]


def cells(summary: Mapping[str, Any]) -> list[tuple[str, list[Cell]]]:
    """Rows of (label, cells): for each selection top-5, top-1 and G_IL; Full last.

    What does not depend on the selection (Full, and methods without a memory) stands in every group.
    """
    groups = selections(summary)
    labels = dict.fromkeys(_label(record, groups) for record in summary["methods"])
    found = {
        (_label(record, groups), s): record
        for record in summary["methods"]
        for s in ([record["select"]] if record["select"] in groups else groups)
    }
    best = {
        (s, name): max((r[name] for (_, of), r in found.items() if of == s and r[name] is not None), default=None)
        for s in groups
        for name, _ in _COLUMNS
    }
    rows = [
        (label, [_cell(found.get((label, s)), name, best[s, name]) for s in groups for name, _ in _COLUMNS])
        for label in labels
    ]
    if full := summary["full"]:
        reference = [_cell(full, "top5", None), _cell(full, "top1", None), Cell("")]
        rows.append(("Full", reference * len(groups)))
    return rows


def _label(record: Mapping[str, Any], groups: Sequence[str | None]) -> str:
    """The method's name; with a star where it is not in the paper, and B=0 where it alone has no memory."""
    alone = record["select"] is None and groups != [None]
    return f"{record['label']}{'' if record['in_paper'] else '*'}{', B=0' if alone else ''}"


def _cell(record: Mapping[str, Any] | None, name: str, best: float | None) -> Cell:
    value = record.get(name) if record else None
    if record is None or value is None:
        return Cell("–")
    digits = 2 if name.startswith("gap") else 1
    spread = record.get(f"{name}_std")
    text = f"{value:.{digits}f}" + (f"±{spread:.1f}" if spread is not None and digits == 1 else "")
    return Cell(text, best is not None and text == _cell({name: best, f"{name}_std": spread}, name, None).text)


def caption(summary: Mapping[str, Any]) -> str:
    """What the numbers are."""
    memory = max((record["memory"] for record in summary["methods"]), default=0)
    seeds = summary.get("seeds", [])
    over = f"; mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else ""
    beyond = "" if all(record["in_paper"] for record in summary["methods"]) else "; *: not in the paper"
    used = f"memory of {memory} images, {summary['exemplars']} used at the end"
    return f"percent; {summary['averaging']}; {used}{over}{beyond}"


def rich_table(summary: Mapping[str, Any]) -> Table:
    """The table for a terminal; the best of each column in bold."""
    from rich import box
    from rich.table import Table

    groups = selections(summary)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method")
    for s in groups:
        for i, (_, title) in enumerate(_COLUMNS):
            table.add_column(f"{_SELECTIONS[s] if i == 0 else ''}\n{title}", justify="right")
    rows = cells(summary)
    for n, (label, row) in enumerate(rows):
        before_full = n == len(rows) - 2 and summary["full"] is not None
        texts = [f"[bold]{cell.text}[/bold]" if cell.best else cell.text for cell in row]
        table.add_row(label, *texts, end_section=before_full)
    return table


def markdown_table(summary: Mapping[str, Any]) -> str:
    """The same table in Markdown."""
    groups = selections(summary)
    titles = [f"{title}, {_SELECTIONS[s]}" for s in groups for _, title in _COLUMNS]
    lines = [_line(["method", *titles]), "|" + "---|" + "---:|" * len(titles)]
    lines += [_line([label, *(f"**{c.text}**" if c.best else c.text for c in row)]) for label, row in cells(summary)]
    return "\n".join([*lines, "", caption(summary)[0].upper() + caption(summary)[1:] + "."]) + "\n"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
