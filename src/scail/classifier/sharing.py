"""Models travel: a folder is pushed to a place that others can reach, and pulled from there. Both are a whole model."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from scail.classifier.folder import check_folder, locked, look, sweep
from scail.classifier.folder.card import CARD, card_of, described_by, may_write_card, read_card
from scail.classifier.folder.files import clear_errors
from scail.classifier.folder.manifest import Manifest, read_manifest
from scail.classifier.folder.origin import Origin, read_origin, write_origin
from scail.classifier.folder.read import missing
from scail.classifier.folder.record import CLASS_FOLDER, MANIFEST, PICTURES, TENSOR_FILE, TRIES, FolderError
from scail.classifier.folder.write import write_card
from scail.classifier.in_folder import not_left_empty
from scail.storage.atomic import write_bytes
from scail.storage.flushing import Flushed, flush
from scail.storage.reading import size_text
from scail.storage.shelf import Shelf, ShelfError, shelf_at

Say = Callable[[str], None]
_MOST_MANIFEST, _MOST_CARD = 256 * 2**20, 2**20


def push(
    folder: str | Path, place: str, *, revision: str | None = None, private: bool = False, replace: bool = False
) -> str:
    """Put the model of this folder at a place: hf:owner/name, or a URL. Gives what came of it, in words.

    It is read as a whole, without the lock: who learns into it meanwhile is not held up. `replace`: also another model
    that is there.
    """
    revision = _branch(revision)
    root, shelf = Path(folder), shelf_at(place, revision, private)
    with tempfile.TemporaryDirectory(prefix="scail-push-") as aside:
        copy = Path(aside) / "model"
        manifest, stamp = _copy_whole(root, copy)
        _check_sound(copy, str(root))
        there = shelf.names()
        then = _stamp_of(shelf, there)
        origin = Origin(shelf.place, revision, stamp)
        if then == stamp:
            _note(root, origin)
            return f"{shelf.place}: has this very model already"
        if not replace:
            _check_known(shelf, there, then, read_origin(root), revision)
        card, stays = _card(root, shelf, there, replace)
        if not stays:
            (copy / CARD).write_bytes(card or card_of(manifest, stamp, look(copy).size, shelf.place))
        size = sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())
        shelf.send(copy, (MANIFEST, CARD), sorted(name for name in there - manifest.files() if _is_own(name)))
    _note(root, origin)
    told = [f"{len(manifest.classes)} classes, {size_text(size)}"]
    if kept := len(manifest.pictures()):
        told.append(f"the {kept} picture(s) that it keeps went with it")
    if stays:
        told.append(f"the {CARD} there was written by hand and stays")
    return f"{shelf.place}: {'; '.join(told)}"


def pull(
    place: str, folder: str | Path | None = None, *, revision: str | None = None, wait: bool = True,
    say: Say = lambda text: None,
) -> str:  # fmt: skip
    """Get the model from a place into a folder, by default one of its name. Gives what came of it, in words.

    It is read through before anything of it is put in place, and then takes the place of the former one in one step.
    A model that has changed here since it was shared, and any other model, stays as it is: that is an error.
    """
    revision = _branch(revision)
    shelf = shelf_at(place, revision)
    root = Path(folder) if folder is not None else Path(shelf.place.rstrip("/").rpartition("/")[2])
    with tempfile.TemporaryDirectory(prefix="scail-pull-") as aside:
        fetched = Path(aside) / "model"
        manifest, stamp = _fetch_whole(shelf, fetched, lambda stamp: _check_room(root, shelf, revision, stamp))
        if _is_there(root, stamp):
            return f"{root}: has this very model already"
        _check_sound(fetched, shelf.place)
        with not_left_empty(root), locked(root, wait, say):
            _check_room(root, shelf, revision, stamp)
            _put_in_place(root, fetched, manifest, Origin(shelf.place, revision, stamp))
    return f"{root}: {len(manifest.classes)} classes, method {manifest.settings.method}, from {shelf.place}"


def _branch(revision: str | None) -> str | None:
    """What is asked for, with one name for the branch that is there anyway."""
    return None if revision == "main" else revision


def _copy_whole(root: Path, to: Path) -> tuple[Manifest, str]:
    """All that the manifest names. Where a change takes some of it away meanwhile, it begins again."""
    for _ in range(TRIES):
        manifest, data = read_manifest(root)
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        name = MANIFEST
        try:
            for name in sorted(manifest.files()):
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / name, to / name, follow_symlinks=False)
        except FileNotFoundError as error:
            if read_manifest(root)[1] == data:
                raise missing(root, manifest, name) from error
            continue
        (to / MANIFEST).write_bytes(data)
        return manifest, hashlib.sha256(data).hexdigest()
    raise FolderError(f"{root}: changes faster than it can be read; try again")


def _check_sound(folder: Path, called: str) -> None:
    """An error if anything in the folder is not what its manifest says."""
    if damaged := check_folder(folder).damaged:
        more = f" ({len(damaged)} such)" if len(damaged) > 1 else ""
        raise FolderError(_of(damaged[0], folder, called) + more)


def _of(text: str, folder: Path, called: str) -> str:
    """An error about a copy, as one about what it is a copy of."""
    return text.replace(str(folder), called)


def _stamp_of(shelf: Shelf, there: frozenset[str]) -> str | None:
    """Of the model at this place; None where there is none."""
    return hashlib.sha256(shelf.read(MANIFEST, _MOST_MANIFEST)).hexdigest() if MANIFEST in there else None


def _check_known(
    shelf: Shelf, there: frozenset[str], then: str | None, origin: Origin | None, revision: str | None
) -> None:
    """An error if something would be replaced that was never seen here."""
    foreign = sorted(name for name in there if not _is_own(name) and name not in (CARD, ".gitattributes", "LICENSE"))
    if then is None and foreign:
        raise ShelfError(f"{shelf.place}: holds {foreign[0]!r} and is not a scail model; give another place")
    if then is None:
        return
    if origin is None or (origin.place, origin.revision) != (shelf.place, revision):
        raise ShelfError(f"{shelf.place}: holds another model; give another place, or --replace to put this one there")
    if origin.stamp != then:
        raise ShelfError(
            f"{shelf.place}: was changed by somebody since this model was shared there. Pull that one into another "
            "folder to look at it, or give --replace to put this one there"
        )


def _card(root: Path, shelf: Shelf, there: frozenset[str], replace: bool) -> tuple[bytes | None, bool]:
    """The card of this folder, if somebody wrote it by hand; and whether one that was written there by hand stays."""
    here = read_card(root)
    own = here if here is not None and described_by(here) is None else None
    if replace or CARD not in there:
        return own, False
    known = shelf.read(CARD, _MOST_CARD)
    return own, described_by(known) is None and known != own


def _is_own(name: str) -> bool:
    """Whether it is a file as scail writes it there, and may take away."""
    parts = name.split("/")
    in_place = len(parts) == 3 and parts[0] in PICTURES and CLASS_FOLDER.fullmatch(parts[1]) is not None
    return TENSOR_FILE.fullmatch(name) is not None or in_place


def _note(root: Path, origin: Origin) -> None:
    with contextlib.suppress(OSError):  # where it cannot be noted, the next push asks for --replace
        write_origin(root, origin)


def _fetch_whole(shelf: Shelf, to: Path, check: Callable[[str], None]) -> tuple[Manifest, str]:
    """The manifest and all that it names, and nothing else; `check` is given its stamp first."""
    for _ in range(TRIES):
        there = shelf.names()
        if MANIFEST not in there:
            raise ShelfError(f"{shelf.place}: there is no scail model, or it is private and you are not logged in")
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        try:
            (to / MANIFEST).write_bytes(shelf.read(MANIFEST, _MOST_MANIFEST))
            manifest, data = read_manifest(to)
            check(stamp := hashlib.sha256(data).hexdigest())
            shelf.fetch(sorted(manifest.files() | ({CARD} & there)), to)
            (to / MANIFEST).write_bytes(data)
        except FileNotFoundError:  # somebody pushes at this moment
            continue
        except FolderError as error:
            raise type(error)(_of(str(error), to, shelf.place)) from error
        return manifest, stamp
    raise ShelfError(f"{shelf.place}: files of it are missing, or it changes faster than it can be read; try again")


def _is_there(root: Path, stamp: str) -> bool:
    return (root / MANIFEST).exists() and look(root).stamp == stamp


def _check_room(root: Path, shelf: Shelf, revision: str | None, stamp: str) -> None:
    """An error if the folder holds a model that this one may not replace."""
    if not (root / MANIFEST).exists():
        return
    now, origin = look(root).stamp, read_origin(root)
    if now == stamp:
        return
    if origin is None or (origin.place, origin.revision) != (shelf.place, revision):
        raise FolderError(f"{root}: holds another model; give a new folder: scail pull {shelf.place} FOLDER")
    if origin.stamp != now:
        raise FolderError(
            f"{root}: was changed since it was shared, and that would be lost; push it, or give a new folder: "
            f"scail pull {shelf.place} FOLDER"
        )


def _put_in_place(root: Path, fetched: Path, manifest: Manifest, origin: Origin) -> None:
    """Its files, then the manifest: from there on it is the new model. What it does not name goes."""
    with clear_errors(root):
        names = sorted(manifest.files())
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(root / name, (fetched / name).read_bytes(), Flushed.NOTHING)
        for path in {root, *((root / name).parent for name in names), *(root / name for name in names)}:
            flush(path)
        write_bytes(root / MANIFEST, (fetched / MANIFEST).read_bytes())
        write_origin(root, origin)
        flush(root)
    with contextlib.suppress(OSError):
        card = read_card(fetched)
        if card is not None and described_by(card) is None and may_write_card(root):
            write_bytes(root / CARD, card)  # somebody wrote it by hand
        write_card(root, manifest, origin.stamp)
    with contextlib.suppress(OSError):
        sweep(root, unfinished=False)
