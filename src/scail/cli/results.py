"""`scail results`: a document from the numbers that `scail grid --results` kept."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class ResultsCommand:
    """Write a document about measured numbers: tables in the paper's layout, what was published held against them.

    DIR is what `scail grid ... --results DIR` filled. Claims are decided by the difference against its standard error
    over seeds; what was not run is shown as missing. Every number comes with its command, commit, versions and time.

    Try `scail results results/cifar100-cpu --out docs/results.md`.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The folder of kept numbers."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.md")] = None
    """The document, Markdown; a picture goes to images/ beside it. Default: results.md in DIR."""

    def __call__(self) -> None:
        """Read, and write the document."""
        from scail.report.document import write_document
        from scail.results.archive import Archive

        if not self.folder.is_dir():
            raise ValueError(f"{self.folder}: no such folder; `scail grid ... --results DIR` makes one")
        archive = Archive(self.folder)
        out = self.out or self.folder / "results.md"
        write_document(archive.all(), out, ["scail", *sys.argv[1:]])
        print(f"{len(archive)} configurations: {out}")
