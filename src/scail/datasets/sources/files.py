"""Image folders and list files of one's own.

A folder has one sub-folder per class, or `train/` and `test/` (or `val/`) folders of that kind. A list file has one
`path label` per line. Without test images of their own, a share of each class is held out by seed.
"""

from __future__ import annotations

from pathlib import Path

import torch

from scail.datasets.dataset import Found, Split
from scail.datasets.images.decode import ENDINGS
from scail.datasets.images.on_disk import table_of_files
from scail.datasets.omitted import Omitted, unread_in
from scail.datasets.scan import images_in, is_image
from scail.storage.reading import MOST_LINES, read_text

_NO_CLASS = (".", "__MACOSX")
_TEST_NAMES = ("test", "val", "validation")
Labelled = tuple[Path, str]


def load_files(place: Path, size: int, workers: int, nested: bool | None = None) -> Found:
    """The images of a folder or list file.

    `nested`: sub-folders of a class are classes, as shoes/red; None: the caller has no choice.
    """
    if place.is_file() and is_image(place.name):
        raise ValueError(
            f"{place}: one image, and nothing says what it shows; "
            "expected a folder with a sub-folder of images per class, or a list file"
        )
    omitted = Omitted()
    train, test = _of_list(place) if place.is_file() else _of_folder(place, omitted, bool(nested))
    if not train:
        left = f"; {unread_in(place)}" if place.is_dir() and unread_in(place) else ""
        raise ValueError(f"{place}: no images found ({', '.join(sorted(ENDINGS))}) in folders of classes{left}")
    names = tuple(sorted({label for _, label in (*train, *test)}))
    number = {name: c for c, name in enumerate(names)}

    def split(pairs: list[Labelled]) -> Split:
        labels = torch.tensor([number[label] for _, label in pairs])
        try:
            return Split(table_of_files([str(path) for path, _ in pairs], size, workers), labels)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error

    return Found(
        place.resolve().stem, names, split(train), split(test) if test else None,
        "its own test images" if test else "", notes=omitted.notes({*names}, nested is not None),
    )  # fmt: skip


def _of_folder(place: Path, omitted: Omitted, nested: bool) -> tuple[list[Labelled], list[Labelled]]:
    inner = {
        child.name: child for child in sorted(place.iterdir()) if child.is_dir() and not child.name.startswith(".")
    }
    test = next((inner[name] for name in _TEST_NAMES if name in inner), None)
    if "train" in inner and test is not None:
        others = [folder for name, folder in inner.items() if name not in ("train", test.name)]
        below = [str(path) for folder in others for path in sorted(folder.rglob("*")) if is_image(path.name)]
        omitted.outside += [*images_in(place), *below]
        return _classes_of(inner["train"], omitted, nested), _classes_of(test, omitted, nested)
    return _classes_of(place, omitted, nested), []


def _classes_of(place: Path, omitted: Omitted, nested: bool) -> list[Labelled]:
    """Every image below each class folder, in a fixed order."""
    all_folders = [folder for folder in sorted(place.iterdir()) if folder.is_dir()]
    folders = [folder for folder in all_folders if not folder.name.startswith(_NO_CLASS)]
    omitted.folders += [folder.name for folder in folders]
    omitted.outside += images_in(place)
    for folder in all_folders:
        if folder.name.startswith("."):
            omitted.invisible += images_in(folder)
    if not nested:
        return [
            (path, folder.name)
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if omitted.takes(path, folder.name, folder)
        ]
    return [
        (path, path.parent.relative_to(place).as_posix())
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if omitted.takes(path, path.parent.relative_to(place).as_posix(), path.parent)
    ]


def _of_list(place: Path) -> tuple[list[Labelled], list[Labelled]]:
    """Lines of `path label`; `train.lst` beside `val.lst` or `test.lst` brings its own test images."""
    for name in _TEST_NAMES:
        other = place.with_name(place.name.replace("train", name))
        if other != place and other.is_file():
            return _lines_of(place), _lines_of(other)
    return _lines_of(place), []


def _lines_of(place: Path) -> list[Labelled]:
    pairs = []
    for number, line in enumerate(read_text(place, MOST_LINES).splitlines(), 1):
        if not line.strip():
            continue
        path, _, label = line.strip().rpartition(" ")
        if not path:
            raise ValueError(f"{place}, line {number}: {line!r}: expected a path and a label")
        pairs.append((place.parent / path.strip(), label))
    return pairs
