"""Change the classifier in a folder: one process at a time, never lost, never half-written.

The folder answers with the old model until the new one takes its place in one step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from scail.classifier.correcting import (
    Corrected,
    pictures_of,
    relabelled,
    renamed,
    told,
    without_kept,
    without_missing,
    without_pictures,
)  # fmt: skip
from scail.classifier.folder import locked, look, read_before, read_model, sweep, write_model
from scail.classifier.folder.files import clear_errors
from scail.classifier.folder.manifest import Manifest
from scail.classifier.folder.record import LOCK, MANIFEST, PICTURE_FILE, UNFINISHED
from scail.classifier.forgetting import what_is_left, without_class
from scail.classifier.incremental_classifier import IncrementalClassifier
from scail.classifier.inputs import as_pixels, images_of
from scail.classifier.model import Model
from scail.classifier.resizing import resized
from scail.classifier.settings import Change
from scail.classifier.undoing import before_of, taken_back
from scail.training import Progress

Say = Callable[[str], None]


def learn_into(
    folder: str | Path,
    images: Any,
    labels: Any = None,
    make: Callable[[], IncrementalClassifier] = IncrementalClassifier,
    *,
    wait: bool = True,
    verbose: bool = True,
    say: Say = lambda text: None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> IncrementalClassifier:
    """Learn these images into the classifier of this folder; `make` gives a new one where there is none yet.

    Killed at any moment, the folder answers as before, and the same call goes on where it stopped. `images` may also be
    a function of the classifier: then they are read when it is known what shape they should have.
    """
    root = Path(folder)
    with not_left_empty(root), locked(root, wait, say):
        with clear_errors(root):
            sweep(root, unfinished=False)  # what a process that was killed left behind
        clf = IncrementalClassifier.load(root, verbose=verbose) if (root / MANIFEST).exists() else make()
        if callable(images):
            images, labels = images(clf)
        return clf.learn_and_save(root, images, labels, report)


@contextlib.contextmanager
def not_left_empty(root: Path) -> Iterator[None]:
    """Folders that were made for a first learn go again if it fails. Unfinished work stays."""
    made = [place for place in (root, *root.parents) if not place.exists()]
    try:
        yield
    except BaseException:
        if made and not (root / MANIFEST).exists() and not (root / UNFINISHED).exists():
            with contextlib.suppress(OSError):
                (root / LOCK).unlink(missing_ok=True)
                for place in made:
                    place.rmdir()  # an error where something is in it: it then stays
        raise


def undo_in(folder: str | Path, *, wait: bool = True, say: Say = lambda text: None) -> str:
    """Take back the last change of the classifier of this folder: a learn, a relabel or a rename. Not a forget.

    Gives what came of it, in words; so do the others below.
    """

    def undo(root: Path, model: Model) -> Corrected:
        return taken_back(model, *read_before(root))

    return _change(folder, "undo", undo, wait, say)


def relabel_in(folder: str | Path, images: Any, name: str, *, wait: bool = True, say: Say = lambda text: None) -> str:
    """Move pictures that were learned under another name to this class."""

    def relabel(_: Path, model: Model) -> Corrected:
        return relabelled(model, as_pixels(images, model.settings.shape), name, told(images))

    return _change(folder, "relabel", relabel, wait, say)


def rename_in(folder: str | Path, old: str, new: str, *, wait: bool = True, say: Say = lambda text: None) -> str:
    """Give a class another name."""
    return _change(folder, "rename", lambda _, model: renamed(model, old, new), wait, say)


def resize_in(folder: str | Path, memory: int, *, wait: bool = True, say: Say = lambda text: None) -> str:
    """Give the classifier of this folder another memory, B images."""
    return _change(folder, "resize", lambda _, model: resized(model, memory), wait, say)


def forget_in(
    folder: str | Path, name: str, images: Any = None, *, wait: bool = True, say: Say = lambda text: None
) -> str:
    """Take a class out of the classifier of this folder, with its pictures, rows, statistics and unfinished work.

    Or, of this class, these pictures alone. One that somebody deleted from the folder is named by its path there.
    """

    def forget(_: Path, model: Model) -> Corrected:
        if images is not None:
            return without_pictures(model, name, as_pixels(images, model.settings.shape), told(images))
        after = without_class(model, name)
        return Corrected(after, what_is_left(after))

    if images is None:
        return _change(folder, "forget", forget, wait, say, lambda root, of: _missing_of(root, of).get(name, set()))
    images, deleted = _there(Path(folder), images_of(images))
    if deleted:
        return _forget_deleted(Path(folder), name, images, deleted, wait, say)
    return _change(folder, "forget", forget, wait, say)


def forget_missing_in(folder: str | Path, *, wait: bool = True, say: Say = lambda text: None) -> str:
    """Take out of the classifier of this folder what somebody deleted there by hand: its pictures that are missing.

    A class of which no picture is left is forgotten.
    """
    found = dict[str, set[str]]()

    def note(root: Path, manifest: Manifest) -> set[str]:
        found.update(_missing_of(root, manifest))
        if not found:
            raise ValueError(f"{root}: no picture is missing")
        return set[str]().union(*found.values())

    def forget(_: Path, model: Model) -> Corrected:
        said = list[str]()
        for name, digests in found.items():
            corrected = without_missing(model, name, {*map(bytes.fromhex, digests)})
            model = corrected.model
            said.append(corrected.said)
        return Corrected(model, "; ".join(said))

    return _change(folder, "forget", forget, wait, say, note)


def _missing_of(root: Path, manifest: Manifest) -> dict[str, set[str]]:
    """By class, the hashes of pictures whose files are not in the folder."""
    found = dict[str, set[str]]()
    for one in manifest.classes:
        for kind, digests in (("exemplars", one.exemplars), ("held-out", one.held_out)):
            for digest in digests:
                if not (root / kind / one.folder / f"{digest}.png").exists():
                    found.setdefault(one.name, set()).add(digest)
    return found


def _change(
    folder: str | Path, change: Change, correct: Callable[[Path, Model], Corrected], wait: bool, say: Say,
    without: Callable[[Path, Manifest], Collection[str]] = lambda root, manifest: (),
) -> str:  # fmt: skip
    """Put the model right, under the folder's lock; nothing is written where that is an error.

    `without`: hashes of pictures that somebody has deleted; they are let go.
    """
    root = Path(folder)
    look(root)  # an error where there is no model, before a folder is made
    with locked(root, wait, say):
        with clear_errors(root):
            sweep(root)  # also what an earlier forget, killed at the end, has left
        model = read_model(root, without=without(root, look(root).manifest))[0]
        found = correct(root, model)
        keeps = change in ("relabel", "rename", "resize")
        write_model(root, found.model, change, before_of(model, found.model) if keeps else None, was_read=True)
    return found.said


def _there(root: Path, images: Any) -> tuple[Any, dict[str, Path]]:
    """The images that can be read; and, by their hashes, those of the folder that somebody deleted."""
    if not isinstance(images, list | tuple):
        return images, {}
    deleted = dict[str, Path]()
    for image in images:
        path = Path(image) if isinstance(image, str | Path) else None
        if path is not None and PICTURE_FILE.fullmatch(path.name) and not path.exists() and not (root / path).exists():
            deleted[path.stem] = path
    places = {image: root / image for image in images if isinstance(image, str) and (root / image).exists()}
    return [places.get(i, i) if isinstance(i, str) else i for i in images if _stem(i) not in deleted], deleted


def _stem(image: Any) -> str:
    return Path(image).stem if isinstance(image, str | Path) else ""


def _forget_deleted(root: Path, name: str, images: Any, deleted: dict[str, Path], wait: bool, say: Say) -> str:
    """Also pictures whose files are gone from the folder: the manifest knows what class they are of."""
    classes = {d: one.name for one in look(root).manifest.classes for d in (*one.exemplars, *one.held_out)}
    for digest, path in deleted.items():
        if classes.get(digest) != name:
            raise ValueError(f"{path}: there is no such file, and no picture of {name!r} that the model keeps")

    def forget(_: Path, model: Model) -> Corrected:
        digests = {bytes.fromhex(digest) for digest in deleted}
        if len(images):
            digests |= pictures_of(model, name, as_pixels(images, model.settings.shape), told(images))
        return without_kept(model, name, digests)

    return _change(root, "forget", forget, wait, say, lambda *_: set(deleted))
