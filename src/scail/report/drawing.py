"""What all pictures have in common: their frame, which methods they show, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scail.results.row import Row
from scail.storage.atomic import aside
from scail.storage.flushing import Flushed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = {"random": "--", "herding": "-", None: "-"}
PAST, NEW = "#c2410c", "#0b5cad"
FORMATS = ("pdf", "svg", "png")


def save(figure: Figure, folder: Path, name: str, formats: Iterable[str]) -> list[Path]:
    """Write a figure in each of these formats, whole or not at all; equal figures are equal files."""
    from matplotlib import rc_context

    paths = []
    for form in formats:
        path = folder / f"{name}.{form}"
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        with rc_context({"svg.hashsalt": name, "pdf.fonttype": 42}), aside(path, Flushed.CONTENT) as begun:
            literal(figure).savefig(begun, format=form, dpi=130, bbox_inches="tight", metadata=undated)
        paths.append(path)
    return paths


def plain(text: str) -> str:
    """A name on an axis: no dollar in it begins a formula."""
    return text.replace("$", r"\$")


def literal(figure: Figure) -> Figure:
    """The same for titles and legends that are there already."""
    from matplotlib.text import Text

    for text in figure.findobj(lambda artist: isinstance(artist, Text) and "$" in artist.get_text()):
        text.set_parse_math(False)  # type: ignore[attr-defined]
    return figure


def new_figure(columns: int, title: str, width: float = 5.2) -> tuple[Figure, Sequence[Axes]]:
    """Axes side by side under a title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, 3.8), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.25)
    return figure, axes


def by_method(rows: Sequence[Row]) -> dict[tuple[str, str, str | None], list[Row]]:
    """Rows by (method, label, selection), each sorted by state; Full left out."""
    found: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in sorted(rows, key=lambda r: r.state):
        if row.method != "full":
            found.setdefault((row.method, row.label, row.select), []).append(row)
    return found


def shown_methods(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """FT and ScaIL of one selection, the last one (herding, where there is a choice)."""
    found = {key: mine for key, mine in by_method(rows).items() if key[0] in ("ft", "scail")}
    last = [*found][-1][2] if found else None
    return [(titled(label, select, " exemplars"), mine) for (_, label, select), mine in found.items() if select == last]


def style_of(select: str | None) -> str:
    """The line of a way to choose exemplars: dotted for one of one's own."""
    return _STYLES.get(select, ":")


def titled(label: str, select: str | None, what: str = "") -> str:
    """A method and its exemplars."""
    return f"{label}, {select}{what}" if select else f"{label}, no memory"


def many_colours(i: int) -> tuple[float, ...]:
    """One of twenty colours."""
    from matplotlib import colormaps

    return tuple(colormaps["tab20"](i % 20))


def state_ticks(states: Sequence[int]) -> list[int]:
    """The states to name on an axis: all of them, or every fifth, ... where they are many.

    >>> state_ticks(range(1, 50))[:3]
    [1, 6, 11]
    """
    every = next(step for step in (1, 2, 5, 10, 20, 50, 10**9) if len(states) <= 15 * step)
    return list(states[::every])
