"""A plan as people read it: a table, and what its times assume."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from scail.benchmark.configuration import Configuration
from scail.benchmark.plan import Count
from scail.networks.timing import duration, seconds_per_image
from scail.runtime.cores import speed_of

if TYPE_CHECKING:
    from rich.table import Table


def seconds_of(configuration: Configuration) -> tuple[float, float]:
    """Seconds for one image in a training of this configuration, and for one that is only looked at; measured here."""
    network, machine = configuration.experiment.recipe.network, configuration.experiment.machine
    return seconds_per_image(
        network, configuration.dataset.shape, configuration.network["flops"], machine.threads, machine.accelerator,
        machine.precision,
    )  # fmt: skip


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
    for title, text in _lines(processes).items():
        table.add_row(title, *map(text, columns))
    return table


def _lines(processes: int) -> dict[str, Callable[[Count], str]]:
    return {
        "configurations": lambda count: f"{count.configurations:,}",
        "of these finished": lambda count: f"{count.finished:,}",
        "trajectories": lambda count: f"{count.trajectories:,}",
        "trainings, one by one": lambda count: f"{count.alone:,}",
        "trainings, shared": lambda count: f"{count.shared:,}",
        "saved by sharing": lambda count: f"{count.alone - count.shared:,}",
        "already trained": lambda count: f"{count.there:,}",
        "epochs to do": lambda count: f"{count.epochs:,}",
        "images to go through": lambda count: (
            f"{count.passes:,}" if count.passes < 1e6 else f"{count.passes / 1e6:,.1f} M"
        ),
        "images to look at": lambda count: f"{count.looks:,}" if count.looks < 1e6 else f"{count.looks / 1e6:,.1f} M",
        "estimated time": lambda count: duration(count.seconds / speed_of(processes)),
    }


def assumptions(total: Count, processes: int, missing: Collection[str]) -> list[str]:
    """What the plan's numbers mean."""
    texts = [
        "A trajectory is one way of training that goes through all states; several methods are read from it.",
        f"Trainings: {total.alone:,} if every method and selection were trained by itself, {total.shared:,} when every "
        f"state is trained once: {total.alone - total.shared:,} saved. {total.there:,} are there already, "
        f"{total.shared - total.there:,} are left: about {duration(total.seconds / speed_of(processes))}.",
    ]
    if total.seconds:
        one = "in one process"
        many = f"in {processes} processes, taken to do {speed_of(processes):.1f} times the work of one"
        texts.append(
            f"The time is of a short measurement on this machine, {one if processes == 1 else many}. Trainings, "
            "features and test images are in it; a training that ends when its loss no longer falls is counted to its "
            "limit. Heads that take long (DeeSIL, FeTrIL, RanPAC) and reading of files "
            "are not in it."
        )
    if missing:
        texts.append(f"* Data not here: planned from published numbers ({', '.join(missing)}).")
    return texts
