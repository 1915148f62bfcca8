"""`scail check`: whether methods of one's own keep what every method has to keep."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class CheckCommand:
    """Try the methods of a file of your own on a few digits, in less than a minute.

    Its heads are to be pure: the same scores from the same evidence (what a head may see), for every class. Selections
    give as many different images as there is room for. Trainers give the same bits from the same seed, after an
    interruption too, and the same network on two devices; what decides their result stands in their settings. What
    fails is told with what to do.

    The file is carried out: it can do whatever you can do.

      scail check my_method.py
    """

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A Python file with METHODS, or the name by which an installed package offers some."""

    def __call__(self) -> None:
        """Check them, one line each; an error if one fails."""
        from scail.benchmark.conformance import findings_on
        from scail.config import RECIPES
        from scail.methods.own_methods import own_methods
        from scail.methods.table import table_of

        own = own_methods(self.file)
        table_of(RECIPES["quick"]("digits").but(own_methods=(own.place,)))  # names that are taken
        print(f"ok    {own.source.path}: {', '.join(own.methods)}; {len(own.source.files)} file(s) in the key")
        failed = 0
        with tempfile.TemporaryDirectory(prefix="scail-check-") as place:
            for one in findings_on(own, Path(place)):
                print(
                    f"{'FAIL' if one.problem else 'ok':6}{one.what}" + (f"\n      {one.problem}" if one.problem else "")
                )
                failed += one.problem is not None
        if failed:
            raise ValueError(f"{self.file}: {failed} check{'s' if failed > 1 else ''} failed, see above")
        print("All is well: scail run --with " + self.file)
