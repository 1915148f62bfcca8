"""`scail store verify` and `scail info --verify`: everything read again, as a file system check does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
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


def verify_model(model: Path, as_json: bool) -> None:
    """Read every file of a model's folder again, and say what came of it; exit code 1 where something is damaged."""
    from scail.classifier.folder import check_folder
    from scail.cli.store import human_size

    found = check_folder(model)
    if as_json:
        print(json.dumps(asdict(found), indent=1, ensure_ascii=False))
    else:
        for text in found.damaged:
            print(f"damaged: {text}")
        counts = ", ".join(f"{count} {kind}" for kind, count in found.counts.items())
        print(f"{model}: manifest{f', {counts}' if counts else ''} read again, {human_size(found.size)}: ", end="")
        print(f"{len(found.damaged)} damaged")
        if found.left:
            print(f"{len(found.left)} files that nothing names; the next change removes them: {_few(found.left)}")
        if found.others:
            print(f"{len(found.others)} files that are not the model's, and are left alone: {_few(found.others)}")
    if found.damaged:
        sys.exit(1)


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
