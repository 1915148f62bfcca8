"""The paper's table from a summary: methods by rows, top-5, top-1 and G_IL for each way of choosing exemplars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scail.report.tabular import UNLEARNED, Cell, Tabular, to_markdown
from scail.results.summary import not_learned

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = (("top5", "top-5"), ("top1", "top-1"), ("gap_top5", "G_IL"))
_WHAT_TO_DO = (
    "the network did not learn: it is right about new classes only, or about less than half of its own exemplars. Its "
    "numbers say nothing about the method. Train longer, as with `scail run --schedule later.epochs=200` (where a "
    "training ends by its loss, also later.passes=0 and later.gain=0.005), or at a higher rate, later.lr"
)
_SELECTIONS = {"random": "random", "herding": "herding", None: "no memory"}
"""How exemplars were chosen."""


def selections(summary: Mapping[str, Any]) -> list[str | None]:
    """The ways of choosing exemplars that the summary has; without a memory there is none to name."""
    there = {record["select"]: None for record in summary["methods"] if record["select"]}
    return [*(s for s in _SELECTIONS if s in there), *(s for s in there if s not in _SELECTIONS)] or [None]


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
    is_best = best is not None and text == _cell({name: best, f"{name}_std": spread}, name, None).text
    return Cell(text + unlearned_mark(record), is_best, key_of(record))


def unlearned_mark(record: Mapping[str, Any]) -> str:
    """What stands behind the numbers of a method whose network did not learn in some state."""
    return UNLEARNED if "per_state" in record and not_learned(record) else ""


def about_mark(summaries: Iterable[Mapping[str, Any]]) -> str:
    """What the mark means, where any of these methods has it."""
    marked = any(unlearned_mark(record) for summary in summaries for record in summary["methods"])
    return f"; {UNLEARNED}: in some state {_WHAT_TO_DO}" if marked else ""


def key_of(record: Mapping[str, Any]) -> str:
    """A method with a selection, in one word; empty for Full, which has one state."""
    return f"{record['method']}|{record['select'] or ''}" if "method" in record else ""


def table_of(summary: Mapping[str, Any], name: str = "table", title: str = "Results") -> Tabular:
    """The paper's table, ready to be written in any form."""
    groups = selections(summary)
    return Tabular(
        name=name,
        title=title,
        columns=[title for _ in groups for _, title in _COLUMNS],
        rows=cells(summary),
        caption=caption(summary),
        groups=[_SELECTIONS[s] if s is None else f"{s} exemplars" for s in groups],
        reference=summary["full"] is not None,
    )


def caption(summary: Mapping[str, Any]) -> str:
    """What the numbers are."""
    memory = max((record["memory"] for record in summary["methods"]), default=0)
    seeds = summary.get("seeds", [])
    over = f"; mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else ""
    beyond = "" if all(record["in_paper"] for record in summary["methods"]) else "; *: not in the paper"
    used = f"memory of {memory} images, {summary['exemplars']} used at the end"
    return f"percent; {summary['averaging']}; {used}{over}{beyond}{_no_gap(summary)}{_warning(summary)}"


def _no_gap(summary: Mapping[str, Any]) -> str:
    """Why there is no G_IL, where there is none."""
    if not any(record["gap_top5"] is None for record in summary["methods"]):
        return ""
    return f"; G_IL is not there: {why_no_gap([summary], 'top5')}"


def why_no_gap(summaries: Iterable[Mapping[str, Any]], value: str) -> str:
    """What keeps the gap to Full from being measured."""
    if any(summary["full"] is None for summary in summaries):
        return "it is measured from Full, which was not run (--methods ...,full)"
    name = {"top5": "top-5", "top1": "top-1"}[value]
    return f"Full has a {name} of 100 %, so that there is no gap to measure"


def _warning(summary: Mapping[str, Any]) -> str:
    """Which networks did not learn, and what to do."""
    found = {record["label"]: not_learned(record) for record in summary["methods"]}
    states = sorted({state for of in found.values() for state in of})
    if not states:
        return ""
    return f"; {UNLEARNED}: in state{'s' if len(states) > 1 else ''} {', '.join(map(str, states))} {_WHAT_TO_DO}"


def rich_table(summary: Mapping[str, Any]) -> Table:
    """The table for a terminal; the best of each column in bold."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    groups = selections(summary)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method")
    for s in groups:
        for i, (_, title) in enumerate(_COLUMNS):
            table.add_column(f"{_SELECTIONS.get(s, s) if i == 0 else ''}\n{title}", justify="right")
    rows = cells(summary)
    for n, (label, row) in enumerate(rows):
        before_full = n == len(rows) - 2 and summary["full"] is not None
        texts = [Text(cell.text, "bold" if cell.best else "") for cell in row]
        table.add_row(label, *texts, end_section=before_full)
    return table


def markdown_table(summary: Mapping[str, Any]) -> str:
    """The same table in Markdown."""
    return to_markdown(table_of(summary))
