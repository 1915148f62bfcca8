"""`scail store verify`: everything read again, as a file system check does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from scail.storage.inspection import Inspected
    from scail.storage.store import Store

Place = Annotated[str | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")]


@dataclass(frozen=True)
class VerifyCommand:
    """Read everything again, and work out every checksum anew: states, unfinished trainings, decoded copies of images.

    What is damaged is named, and the exit code is then 1. A store behind a URL is read from there.
    """

    remove: bool = False
    """Remove what is damaged. A run makes it again, with the same bits."""
    store: Place = None
    """Which store, as for `ls`."""

    def on(self, store: Store | None) -> None:
        """Read all, name what is damaged, and count; None: there is no store, but perhaps copies of images."""
        from scail.storage.inspection import inspected, inspected_images

        of_store = inspected(store) if store else ()
        read = [*self._told(of_store, "states"), *self._told(inspected_images(), "copies of images")]
        bad = _print_counts(read, self.remove)
        for line in unfinished(store) if store else ():
            print(line)
        if bad:
            sys.exit(1)

    def _told(self, found: Iterable[Inspected], what: str) -> Iterator[Inspected]:
        """Each of them, named and removed if it is damaged."""
        from rich.progress import track

        for one in track(found, f"checking {what}", disable=not sys.stdout.isatty(), transient=True):
            if one.verdict != "sound":
                print(f"{'damaged' if one.verdict == 'damaged' else 'cannot be checked'}: {one.said}")
            if one.verdict == "damaged" and self.remove:
                one.remove()
            yield one


def _print_counts(read: Sequence[Inspected], removed: bool) -> bool:
    """How many were read and how many are damaged; whether something is still wrong."""
    for kind in ("states", "unfinished trainings", "decoded copies of images"):
        verdicts = [one.verdict for one in read if one.kind == kind]
        damaged, unknown = verdicts.count("damaged"), verdicts.count("unknown")
        told = f"{len(verdicts)} {kind} checked, {damaged} damaged{' and removed' if damaged and removed else ''}"
        print(told + (f", {unknown} that cannot be checked" if unknown else ""))
    wrong = {one.verdict for one in read} - {"sound"}
    if "damaged" in wrong and not removed:
        print("to remove what is damaged: scail store verify --remove; a run makes it again, with the same bits")
    return bool(wrong - {"damaged"} if removed else wrong)


def unfinished(store: Store) -> Iterator[str]:
    """What stands in a store beside states."""
    from scail.cli.store import size_of

    held = store.held()
    trainings, halves = ([one for one in held if one.kind == kind] for kind in ("training", "half"))
    if trainings:
        yield f"{len({one.key for one in trainings})} unfinished trainings, {size_of(trainings)}: the same run goes on"
    if halves:
        yield f"{len(halves)} half-written, {size_of(halves)}: left by processes that died, or just being written"
    for one in held:
        if one.kind == "stray":
            yield f"not scail's, and left alone: {one.path.name!r} in {one.path.parent}"
