"""`scail paper`: what was measured beside what was published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class PaperCommand:
    """Print what was measured beside what was published, cell by cell, and which settings differ from the paper's.

    Give one or several folders of `scail run`. A run that matches no published cell is named with what differs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folders of runs."""

    def __call__(self) -> None:
        """Print the cells, then G_IL over all of them."""
        from rich.console import Console
        from rich.table import Table

        from scail.report.paper import compare, differences, find_runs, gaps, nearest, read_run

        console, everything = Console(), []
        for run in find_runs(self.runs):
            config, summary = read_run(run)
            found = compare(config, summary)
            everything += found
            if not found:
                console.print(
                    f"{run}: matches no published cell: {nearest(config, summary)}.", highlight=False, soft_wrap=True
                )
                continue
            table = Table("method", "data", "Z", "B", "measured", "published", "difference", box=None, pad_edge=False)
            for one in found:
                values = (f"{one.measured:.1f}", f"{one.published:.1f}", f"{one.measured - one.published:+.1f}")
                table.add_row(one.label, one.dataset, str(one.states), str(one.memory), *values)
            console.print(
                f"{run} (seed {config['experiment']['seed']}): top-5, {summary['averaging']}", highlight=False
            )
            console.print(table)
            differing = differences(config)
            console.print(
                f"Differs from the paper in: {'; '.join(differing) or 'nothing that the recipe has'}\n", soft_wrap=True
            )
        if everything:
            table = Table("method", "G_IL measured", "published", "configurations", box=None, pad_edge=False)
            for label, (mine, theirs, count) in gaps(everything).items():
                table.add_row(label, "–" if mine is None else f"{mine:.2f}", f"{theirs:.2f}", str(count))
            console.print("G_IL over the configurations above, and published over the same ones:")
            console.print(table)
