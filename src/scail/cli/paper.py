"""`scail paper`: what was measured held against what was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from rich.console import Console

    from scail.report.paper import Beside
    from scail.results.papers import BesidePaper

_FOLDERS = "give folders of `scail run` or `scail grid`, or the one that `scail grid --results` filled"


@dataclass(frozen=True)
class PaperCommand:
    """Hold what was measured against what was published.

    Of runs and grids, each number that has a cell in the paper's tables is printed beside it, with the settings that
    differ. A run that matches no cell is named with the nearest one.

    Numbers of other papers are printed beside runs of the very same protocol: data, classes, order, states, memory and
    test images. `--published FILE` adds your own, as docs/how-to/reproduce-a-table.md says.

    Of kept numbers, which `scail grid --results DIR` collects, a document is written. It has tables in the paper's
    layout, with means and spreads over seeds. For CIFAR-100 it says which of the paper's claims are shown: the
    difference decides, against its standard error. It names what was not run, and how every number was made.

      scail paper runs/mine
      scail paper results/cifar100-cpu --out docs/results/cifar100.md
    """

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR ...")] = ()
    """Folders of runs or grids, or one folder of kept numbers."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.md")] = None
    """For kept numbers: the document. A picture goes to images/ beside it. Default: results.md in DIR."""

    published: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE.csv ...")] = ()
    """Of runs: further tables of published numbers."""

    def __call__(self) -> None:
        """See what the folders hold, and print or write."""
        if not self.folders:
            raise ValueError(f"no folder was given; {_FOLDERS}")
        kept = [folder for folder in self.folders if _holds_numbers(folder)]
        if not kept:
            if self.out is not None:
                raise ValueError(
                    f"--out {self.out}: runs are only printed; a document is made of kept numbers. Leave it away, or "
                    "give the folder that `scail grid --results` filled"
                )
            _print_runs(self.folders, self.published)
        elif self.published:
            raise ValueError(f"--published {self.published[0]}: is for runs; {kept[0]} holds kept numbers")
        elif len(kept) < len(self.folders):
            other = next(folder for folder in self.folders if folder not in kept)
            raise ValueError(f"{kept[0]} holds kept numbers, {other} holds runs; give one kind at a time")
        elif len(kept) > 1:
            raise ValueError(f"{kept[0]} and {kept[1]} hold kept numbers; a document is about one such folder")
        else:
            self._write_document(kept[0])

    def _write_document(self, folder: Path) -> None:
        from scail.report.document import write_document
        from scail.results.archive import Archive

        archive, out = Archive(folder), self.out or folder / "results.md"
        command = ["scail", "paper", str(folder), *(["--out", str(out)] if self.out else [])]
        write_document(archive.all(), out, command)
        print(f"{len(archive)} configurations: {out}")


def _holds_numbers(folder: Path) -> bool:
    """Whether the folder holds kept numbers: files that begin with a key. If not, it holds runs, or it is an error."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; {_FOLDERS}")
    files = list(folder.glob("*.jsonl"))
    if any(_has_key(path) for path in files):
        return True
    if (folder / "config.json").exists() or any(folder.rglob("summary.json")):
        return False
    if not files:
        raise ValueError(
            f"{folder}: no finished run there (no summary.json), and no results there that were kept (no *.jsonl); "
            + _FOLDERS
        )
    return True  # what is wrong with them is said where they are read


def _has_key(path: Path) -> bool:
    from scail.results.kept_record import first_record

    try:
        return "key" in first_record(path)
    except (OSError, ValueError):
        return False


def _print_runs(folders: Sequence[Path], published: Sequence[Path]) -> None:

    from scail.cli.terminal import Terminal
    from scail.report.paper import compare, differences, find_runs, how_trained, nearest, read_run
    from scail.results.papers import beside_papers, paper_numbers

    console = Terminal()
    everything: list[Beside] = []
    numbers = paper_numbers(published)
    for run in find_runs(folders):
        config, summary = read_run(run)
        found, others = compare(config, summary), beside_papers(config, summary, numbers)
        everything += found
        if others:
            console.print(f"{run} (seed {config['experiment']['seed']}), beside numbers of its protocol:")
            _print_others(others, console)
        if not found and others:
            continue
        if not found:
            text = f"{run}: matches no published cell: {nearest(config, summary)}."
            console.print(text, soft_wrap=True)
            continue
        console.print(f"{run} (seed {config['experiment']['seed']}): top-5, {summary['averaging']}")
        _print_cells(found, console)
        differing = "; ".join(differences(config)) or "nothing that the recipe has"
        console.print(f"Differs from the paper in: {differing}", soft_wrap=True)
        console.print("\n".join(how_trained(config, run)), "\n", soft_wrap=True)
    if everything:
        _print_gaps(everything, console)


def _print_cells(found: Sequence[Beside], console: Console) -> None:
    from rich.table import Table

    table = Table("method", "data", "Z", "B", "measured", "published", "difference", box=None, pad_edge=False)
    for one in found:
        values = (f"{one.measured:.1f}", f"{one.published:.1f}", f"{one.measured - one.published:+.1f}")
        table.add_row(one.label, one.dataset, str(one.states), str(one.memory), *values)
    console.print(table)


def _print_others(found: Sequence[BesidePaper], console: Console) -> None:
    from rich.table import Table

    from scail.results.measures import MEASURES

    table = Table("method", "number", "measured", "published", "difference", "by", box=None, pad_edge=False)
    for one in found:
        number = one.number
        title = MEASURES[number.measure].title
        what = title if number.state is None else f"{title} after state {number.state}"
        values = (f"{one.measured:.1f}", f"{number.value:.1f}", f"{one.measured - number.value:+.1f}")
        table.add_row(one.label, what, *values, number.paper)
    console.print(table)
    for source in dict.fromkeys(one.number.source for one in found):
        console.print(f"Source: {source}", soft_wrap=True)


def _print_gaps(found: Sequence[Beside], console: Console) -> None:
    from rich.table import Table

    from scail.report.paper import gaps

    table = Table("method", "G_IL measured", "published", "configurations", box=None, pad_edge=False)
    for label, (mine, theirs, count) in gaps(found).items():
        table.add_row(label, "–" if mine is None else f"{mine:.2f}", f"{theirs:.2f}", str(count))
    console.print("G_IL over the configurations above, and published over the same ones:")
    console.print(table)
