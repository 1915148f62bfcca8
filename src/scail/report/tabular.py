"""A table of results, once, and its forms: Markdown, LaTeX (booktabs), CSV and HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

UNLEARNED = "†"
"""Stands behind the numbers of a network that did not learn."""


@dataclass(frozen=True)
class Cell:
    """A number as text, and whether it is the best of its column."""

    text: str
    best: bool = False
    key: str = ""
    """What the number was measured of; in HTML its values per state are shown beside it."""


@dataclass(frozen=True)
class Tabular:
    """Methods by rows. Columns may stand in named groups of equal width."""

    name: str
    """As a file's name."""
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    caption: str
    groups: Sequence[str] = ()
    reference: bool = False
    """Whether the last row (Full) stands apart."""

    def flat_columns(self) -> list[str]:
        """Column titles that need no second line."""
        if not self.groups:
            return list(self.columns)
        width = len(self.columns) // len(self.groups)
        groups = [group.removesuffix(" exemplars") for group in self.groups]
        return [f"{title}, {groups[i // width]}" for i, title in enumerate(self.columns)]


def to_markdown(table: Tabular) -> str:
    """A pipe table and its caption."""
    lines = [
        ["method", *table.flat_columns()],
        ["---", *["---:"] * len(table.columns)],
        *([label, *(f"**{c.text}**" if c.best else c.text for c in row)] for label, row in table.rows),
    ]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{text}\n\n{_sentence(table.caption)}\n"


def to_csv(table: Tabular) -> str:
    """Numbers as they stand in the table; empty where there is none. Spreads have columns of their own, and what marks
    a number stands behind the label: programs read numbers."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    titles = table.flat_columns()
    spread = [any("±" in row[i].text for _, row in table.rows) for i in range(len(titles))]
    writer.writerow(["method", *(t for i, title in enumerate(titles) for t in _names(title, spread[i]))])
    for label, row in table.rows:
        values = [v for i, cell in enumerate(row) for v in _numbers(cell.text.replace(UNLEARNED, ""), spread[i])]
        label += UNLEARNED * any(UNLEARNED in cell.text for cell in row)
        # A spreadsheet takes a text that begins so for a formula.
        writer.writerow([f"'{label}" if label[:1] in "=+-@" else label, *values])
    return out.getvalue()


def _names(title: str, spread: bool) -> list[str]:
    return [title, f"{title}, std"] if spread else [title]


def _numbers(text: str, spread: bool) -> list[str]:
    value, _, deviation = text.partition("±")
    values = ["" if value == "–" else value, deviation]
    return values if spread else values[:1]


_LATEX = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "–": "--", UNLEARNED: r"$^\dagger$", "±": r"$\pm$",
}  # fmt: skip


def to_latex(table: Tabular) -> str:
    """A table environment with booktabs' rules; needs \\usepackage{booktabs}."""
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(_sentence(table.caption))}}}",
    ]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    if table.groups:
        width = len(table.columns) // len(table.groups)
        heads = [rf"\multicolumn{{{width}}}{{c}}{{{_latex(group)}}}" for group in table.groups]
        rules = [rf"\cmidrule(lr){{{2 + i * width}-{1 + (i + 1) * width}}}" for i in range(len(table.groups))]
        lines += [" & " + " & ".join(heads) + r" \\", " ".join(rules)]
    lines += [" & ".join(["method", *(_latex_label(title) for title in table.columns)]) + r" \\", r"\midrule"]
    for n, (label, row) in enumerate(table.rows):
        if table.reference and n == len(table.rows) - 1:
            lines.append(r"\midrule")
        texts = [rf"\textbf{{{_latex(c.text)}}}" if c.best else _latex(c.text) for c in row]
        lines.append(" & ".join([_latex_label(label), *texts]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def raised_and_lowered(label: str) -> tuple[str, str, str, str]:
    """Name, what is lowered, what is raised, and the rest of a label such as FT_init^L2, herding.

    >>> raised_and_lowered("FT_init^L2, B=0")
    ('FT', 'init', 'L2', ', B=0')
    """
    parts = re.fullmatch(r"([^_^,*]+)(?:_([^_^,*]+))?(?:\^([^_^,*]+))?([,*].*)?", label, re.DOTALL)
    if parts is None:
        return label, "", "", ""
    name, low, high, rest = parts.groups("")
    return name, low, high, rest


def _latex_label(label: str) -> str:
    name, low, high, rest = raised_and_lowered(label)
    marks = (f"_{{\\mathrm{{{_latex(low)}}}}}" if low else "") + (f"^{{\\mathrm{{{_latex(high)}}}}}" if high else "")
    return _latex(name) + (f"${marks}$" if marks else "") + _latex(rest)


def html_label(label: str) -> str:
    """A label with what is raised and lowered in it."""
    name, low, high, rest = (escape(part) for part in raised_and_lowered(label))
    return name + (f"<sub>{low}</sub>" if low else "") + (f"<sup>{high}</sup>" if high else "") + rest


def to_html(table: Tabular) -> str:
    """A table in a box that scrolls by itself. Cells with a key can be asked for their values per state."""
    heads = ""
    if table.groups:
        width = len(table.columns) // len(table.groups)
        spans = "".join(f'<th scope="colgroup" colspan="{width}">{escape(group)}</th>' for group in table.groups)
        heads = f"<tr><td></td>{spans}</tr>"
    titles = "".join(f'<th scope="col">{html_label(title)}</th>' for title in table.columns)
    body = []
    for n, (label, row) in enumerate(table.rows):
        apart = ' class="reference"' if table.reference and n == len(table.rows) - 1 else ""
        cells = "".join(map(_html_cell, row))
        body.append(f'<tr{apart}><th scope="row">{html_label(label)}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table class="results"><caption>{escape(_sentence(table.caption))}</caption><thead>{heads}'
        f'<tr><th scope="col">method</th>{titles}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def _html_cell(cell: Cell) -> str:
    text = f"<strong>{escape(cell.text)}</strong>" if cell.best else escape(cell.text)
    return f'<td data-key="{escape(cell.key)}">{text}</td>' if cell.key else f"<td>{text}</td>"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


FORMS: dict[str, Callable[[Tabular], str]] = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
"""Ending of the file -> how it is written."""
