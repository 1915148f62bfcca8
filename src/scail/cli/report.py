"""`scail report`: a page, figures and tables from runs that are finished."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from scail.results.marks import GRID, RUN


@dataclass(frozen=True)
class ReportCommand:
    """Write a page about runs, with figures and tables for papers. Nothing is trained.

    The page, report.html, is one file that needs no network. Figures are PDF, SVG and PNG, tables LaTeX, Markdown and
    CSV. Runs of unlike protocol stand in tables of their own, and the page says what differs.

      scail report runs/demo
      scail report runs/a runs/b --out compared
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN_OR_GRID")] = ()
    """Folders of `scail run` or `scail grid`."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where report.html, figures/ and tables/ go. Default: the folder itself, if there is only one."""
    formats: Annotated[str, tyro.conf.arg(metavar="NAMES")] = "pdf,svg,png"
    """Formats of the figures, separated by commas, or none. Figures are of the first seed."""
    no_thumbnails: bool = False
    """Leave small pictures of the images that were learned out of the page: for a page that is passed on."""

    def __call__(self) -> None:
        """Write it, and say where."""
        if not self.runs:
            raise ValueError("no run was given; give folders of `scail run` or `scail grid`")
        if self.out is None and len(self.runs) > 1:
            raise ValueError("several folders: say where the report goes, with --out DIR")
        out = self.out or self.runs[0]
        if self.out is None and out.is_dir() and not any((out / name).exists() for name in (RUN, GRID)):
            raise ValueError(f"{out}: not the folder of one run or grid: say where the report goes, with --out DIR")
        formats = _formats(self.formats)
        from scail.report.write import write_report

        page = write_report(self.runs, out, formats, not self.no_thumbnails)
        print(f"Report: {page}; tables: {out / 'tables'}/" + (f"; figures: {out / 'figures'}/" if formats else ""))


def _formats(text: str) -> list[str]:
    known = ("pdf", "svg", "png")
    chosen = [part.strip() for part in text.split(",") if part.strip() and part.strip() != "none"]
    wrong = [part for part in chosen if part not in known]
    if wrong:
        raise ValueError(f"--formats {text}: unknown {wrong[0]}; expected some of {', '.join(known)}, or none")
    return list(dict.fromkeys(chosen))
