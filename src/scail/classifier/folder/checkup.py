"""A model's folder as a file system check reads it: every file that the manifest names, and all that it does not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scail.classifier.answering import MOST_ANSWER, Answerer
from scail.classifier.folder.card import CARD, described_by, read_card
from scail.classifier.folder.manifest import Manifest, TensorFile, read_manifest
from scail.classifier.folder.origin import ORIGIN
from scail.classifier.folder.pictures import read_png
from scail.classifier.folder.read import missing, read_before, read_model, tensors_in
from scail.classifier.folder.record import (
    CLASS_FOLDER,
    LOCK,
    MANIFEST,
    PICTURE_FILE,
    PICTURES,
    TENSOR_FILE,
    TRIES,
    UNFINISHED,
    UNFINISHED_FILE,
    DamagedModel,
    FolderError,
    read_checked,
)  # fmt: skip
from scail.datasets.images.on_disk import in_threads
from scail.storage.atomic import ASIDE
from scail.storage.checkpoint import Checkpoint

_NUMBERS, _ANSWERS, _PICTURES, _TRAININGS = "files of numbers", "files that answer", "pictures", "unfinished trainings"


@dataclass(frozen=True)
class Checkup:
    """What came of reading a whole folder again."""

    counts: Mapping[str, int]
    """How many files of each kind were read."""
    size: int
    """Bytes of all that the manifest names."""
    damaged: tuple[str, ...]
    """What is wrong with which file, and what to do."""
    left: tuple[str, ...] = ()
    """Files of the folder's own kinds that nothing names: of a process that was killed, or that is just at it."""
    others: tuple[str, ...] = ()
    """Files that are not the model's; they are left alone."""


def check_folder(root: Path) -> Checkup:
    """Read everything again, and work out every checksum anew. Where a change ends meanwhile, it begins again."""
    root = Path(root)
    for _ in range(TRIES):
        try:
            manifest, data = read_manifest(root)
        except DamagedModel as damage:
            return Checkup({}, 0, (str(damage),))
        found = _checked(root, manifest)
        if not found.damaged or read_manifest(root)[1] == data:
            return found
    raise FolderError(f"{root}: changes faster than it can be read; try again")


def _checked(root: Path, manifest: Manifest) -> Checkup:
    shape, counts, damaged = manifest.settings.shape, Counter[str](), list[str]()
    pictures = [name for name in sorted(manifest.files()) if name.endswith(".png")]

    def of_picture(name: str) -> str | None:
        return _trouble(root, manifest, lambda: read_png(root, name, shape))

    def of_numbers(file: TensorFile) -> str | None:
        return _trouble(root, manifest, lambda: _read_numbers(root, file))

    files = {file.name: file for file in _files_of(manifest)}
    for name, file in files.items():
        counts[_ANSWERS if name.startswith("answer") else _NUMBERS] += 1
        damaged += filter(None, [of_numbers(file)])
    damaged += filter(None, in_threads(of_picture, pictures, os.cpu_count() or 1))
    if not damaged:  # each file is as it was written: do they fit together?
        damaged += filter(None, [_trouble(root, manifest, lambda: _read_together(root, manifest))])
    trainings = [path for path in _below(root) if path.parent.name == UNFINISHED and _is_own(path.relative_to(root))]
    trainings = [path for path in trainings if not path.name.startswith(".")]
    damaged += [_anew(path) for path in trainings if Checkpoint(path).load() is None and path.exists()]
    counts |= Counter({_PICTURES: len(pictures), _TRAININGS: len(trainings)})
    size = sum((root / name).stat().st_size for name in (*files, *pictures) if (root / name).exists())
    return _with_the_rest(Checkup(dict(counts), size, tuple(damaged)), root, manifest, trainings)


def _files_of(manifest: Manifest) -> Iterator[TensorFile]:
    for one in (manifest, manifest.before):
        if one is not None:
            yield from (one.network, one.evidence, *one.features)
            yield from (file for file in (one.int8, one.answer) if file is not None)


def _read_numbers(root: Path, file: TensorFile) -> None:
    if file.name.endswith(".onnx"):
        read_checked(root, file.name, file.sha256, MOST_ANSWER)
    else:
        tensors_in(root, file)


def _read_together(root: Path, manifest: Manifest) -> None:
    read_model(root)
    read_before(root)
    if manifest.answer is not None:
        Answerer.open(root, threads=1)


def _trouble(root: Path, manifest: Manifest, read: Callable[[], object]) -> str | None:
    """What is wrong with what is read; None: nothing is."""
    try:
        read()
    except FileNotFoundError as error:
        return str(missing(root, manifest, str(error.filename)))
    except FolderError as damage:
        return str(damage)
    except OSError as error:
        return f"{root / str(error.filename or '')}: {error.strerror or error}"
    return None


def _anew(path: Path) -> str:
    return f"{path}: its checksum does not match, or it is of an older scail; the same learn begins that training anew"


def _with_the_rest(found: Checkup, root: Path, manifest: Manifest, trainings: list[Path]) -> Checkup:
    """With the files that the manifest does not name."""
    card = {CARD} if described_by(read_card(root) or b"") else set[str]()
    needed = {
        MANIFEST,
        LOCK,
        ORIGIN,
        *card,
        *manifest.files(),
        *(path.relative_to(root).as_posix() for path in trainings),
    }
    rest = [path.relative_to(root) for path in _below(root) if path.relative_to(root).as_posix() not in needed]
    left = [path.as_posix() for path in rest if _is_own(path)]
    return replace(found, left=tuple(left), others=tuple(path.as_posix() for path in rest if not _is_own(path)))


def _is_own(path: Path) -> bool:
    """Whether it is a file as scail writes it there."""
    if ASIDE.fullmatch(path.name):
        return True
    if path.parts[0] == UNFINISHED:
        return len(path.parts) == 2 and bool(UNFINISHED_FILE.fullmatch(path.name))
    if len(path.parts) == 1:
        return bool(TENSOR_FILE.fullmatch(path.name))
    in_place = len(path.parts) == 3 and path.parts[0] in PICTURES and CLASS_FOLDER.fullmatch(path.parts[1])
    return bool(in_place and PICTURE_FILE.fullmatch(path.name))


def _below(root: Path) -> list[Path]:
    """Every file; links are files, and are not followed."""
    found = list[Path]()
    for here, folders, files in os.walk(root):
        found += [
            Path(here) / name for name in (*files, *(name for name in folders if (Path(here) / name).is_symlink()))
        ]
    return sorted(found)
