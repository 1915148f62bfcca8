"""A plan as people read it: a table, and what its times assume."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from scail.benchmark.plan import Count
from scail.networks.timing import duration
from scail.runtime.cores import speed_of

if TYPE_CHECKING:
    from rich.table import Table


def plan_table(counts: Mapping[str, Count], total: Count, processes: int, missing: Collection[str]) -> Table:
    """A column for each data set, and one for all."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("plan", no_wrap=True)
    for name in counts:
        table.add_column(f"{Path(name).stem}{'*' if name in missing else ''}", justify="right")
    columns = list(counts.values())
    if len(counts) > 1:
        table.add_column("all", justify="right")
        columns.append(total)
    for title, text in _lines(processes, any(count.may_end for count in columns)).items():
        table.add_row(title, *map(text, columns))
    return table


def _lines(processes: int, may_end: bool) -> dict[str, Callable[[Count], str]]:
    most = ", at most" if may_end else ""
    return {
        "configurations": lambda count: f"{count.configurations:,}",
        "of these finished": lambda count: f"{count.finished:,}",
        "trajectories": lambda count: f"{count.trajectories:,}",
        "trainings, one by one": lambda count: f"{count.alone:,}",
        "trainings, shared": lambda count: f"{count.shared:,}",
        "saved by sharing": lambda count: f"{count.alone - count.shared:,}",
        "already trained": lambda count: f"{count.there:,}",
        f"epochs to do{most}": lambda count: f"{count.epochs:,}",
        f"images to go through{most}": lambda count: _many(count.passes),
        "images to look at": lambda count: _many(count.looks),
        "estimated time": lambda count: time_of(count, processes),
    }


def _many(images: int) -> str:
    return f"{images:,}" if images < 1e6 else f"{images / 1e6:,.1f} M"


def time_of(count: Count, processes: int) -> str:
    """How long it takes: probably, where that can be known, and between which limits, where trainings may end before.

    >>> time_of(Count(seconds=50), 1), time_of(Count(seconds=50, least=20, likely=30, may_end=2), 1)
    ('50 s', '30 s, between 20 s and 50 s')
    >>> time_of(Count(seconds=50, least=20, likely=30, may_end=2, unlike=1), 1)
    'between 20 s and 50 s'
    >>> time_of(Count(seconds=50, least=50, likely=50, may_end=2, unlike=1), 1)
    '50 s'
    """
    speed = speed_of(processes)
    likely, least, most = (duration(seconds / speed) for seconds in (count.likely, count.least, count.seconds))
    if not count.may_end or least == most:
        return most
    return f"{'' if count.unlike else f'{likely}, '}between {least} and {most}"


def assumptions(total: Count, processes: int, missing: Collection[str]) -> list[str]:
    """What the plan's numbers mean."""
    texts = [
        "A trajectory is one way of training that goes through all states; several methods are read from it.",
        f"Trainings: {total.alone:,} if every method and selection were trained by itself, {total.shared:,} when every "
        f"state is trained once: {total.alone - total.shared:,} saved. {total.there:,} are there already, "
        f"{total.shared - total.there:,} are left. Time: {time_of(total, processes)}.",
    ]
    if total.seconds:
        one = "in one process"
        many = f"in {processes} processes, taken to do {speed_of(processes):.1f} times the work of one"
        texts.append(
            f"The time is of a short measurement on this machine, {one if processes == 1 else many}. Trainings, "
            f"saving them, features and test images are in it{_ends(total)}. Heads that take long (DeeSIL, FeTrIL, "
            "RanPAC) and reading of files are not in it."
        )
    if missing:
        texts.append(f"* Data not here: planned from published numbers ({', '.join(missing)}).")
    return texts


def _ends(total: Count) -> str:
    """How trainings are counted that end when their loss stops falling."""
    if not total.may_end:
        return ""
    if total.unlike:
        return (
            ". A training ends when its loss no longer falls, and nobody knows when: the time lies between that of the "
            "shortest trainings and that of the longest. Once one of each kind is in the store, a plan says what is "
            "likely"
        )
    return (
        ". A training ends when its loss no longer falls. How early, is taken from trainings of its kind in the store"
    )
