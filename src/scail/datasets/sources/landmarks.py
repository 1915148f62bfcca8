"""`landmarks`: Google Landmarks, the classes with the most images on disk.

The paper's is version 1 (2018). Many of its addresses are dead by now, so that what is on disk decides. Version 2 has
the same table and works; it is stamped as other data than the paper's.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from sys import intern
from typing import TextIO

from scail.config import DataSettings
from scail.datasets.listing import Listing, hold_out, largest_classes
from scail.datasets.scan import is_image

VERSION_1_LANDMARKS = 14_951
"""Landmarks in version 1; version 2 has 203,094 (81,313 in its clean part)."""
_VERSION_2_FILES = ("train_clean.csv", "train_label_to_category.csv")
_PLACES = ("", "train", "images")


def load(place: Path | None, settings: DataSettings) -> Listing | None:
    """The paper's selection of the images in this folder."""
    return None if place is None else list_landmarks(place, settings.classes or 1000, seed=settings.split_seed)


def list_landmarks(folder: Path | str, classes: int = 1000, test_images: int = 20, seed: int = 0) -> Listing:
    """The `classes` landmarks of `train.csv` with the most images on disk, `test_images` of each held out by seed.

    Images are `ID.jpg` in the folder, in its `train/` or its `images/`; flat, or in `a/b/c/` by the first characters
    of the id. The paper's 1000 landmarks have 374,367 training and 20,000 test images.
    """
    place = Path(folder).absolute()
    landmark_of, nameless = _read_table(place / "train.csv")
    name = "landmarks-v2" if _is_version_2(place, landmark_of) else "landmarks"
    listed = len(landmark_of)
    paths_of, strange = _on_disk(place, landmark_of)
    found = sum(map(len, paths_of.values()))
    if not found:
        raise ValueError(
            f"{name}: none of the {listed:,} images of {place / 'train.csv'} found: expected ID.jpg in {place}, its "
            "train/ or its images/, flat or in a/b/c/ by the first three characters of the id"
        )
    counts = {landmark: len(paths) for landmark, paths in paths_of.items()}
    names = sorted(largest_classes(counts, classes, where=f"{name}, {place}"))
    parts = hold_out({landmark: paths_of[landmark] for landmark in names}, test_images, seed, f"{name}, {place}")
    notes = [f"{found:,} of the {listed:,} images that train.csv lists with a landmark are on disk"]
    if nameless:
        notes.append(f"{nameless:,} rows of train.csv name no landmark and are left out")
    if strange:
        notes.append(f"{strange:,} more image files are left out: not in train.csv, or there a second time")
    if name == "landmarks-v2":
        notes.insert(0, "Google Landmarks version 2; the paper's data set is version 1: not its numbers")
    cut = f"{len(names)} landmarks with the most images on disk; seed {seed}: {test_images} a class held out"
    return Listing(name, tuple(names), *parts, split=cut, notes=tuple(notes))


def _read_table(table: Path) -> tuple[dict[str, str], int]:
    """The landmark of each image id, and how many rows name none."""
    if not table.is_file():
        raise ValueError(
            f"landmarks: no {table}; put the train.csv of Google Landmarks version 1 there (columns id,url,landmark_id)"
        )
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            return _read_rows(table, file)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{table}: cannot be read as CSV ({error}); download it again") from error


def _read_rows(table: Path, file: TextIO) -> tuple[dict[str, str], int]:
    landmark_of, nameless = dict[str, str](), 0
    rows = csv.reader(file, skipinitialspace=True)
    columns = next(rows, [])
    if not {"id", "landmark_id"} <= set(columns):
        raise ValueError(f"{table}, line 1: columns {','.join(columns)!r}, expected id,url,landmark_id")
    id_at, landmark_at = columns.index("id"), columns.index("landmark_id")
    for row in filter(None, rows):  # an empty line is no row
        if len(row) != len(columns):
            raise ValueError(f"{table}, line {rows.line_num}: {','.join(row)!r}: expected {','.join(columns)}")
        if row[landmark_at] in ("", "None"):
            nameless += 1
        elif row[id_at] in landmark_of:
            raise ValueError(f"{table}, line {rows.line_num}: image {row[id_at]!r} is listed a second time")
        else:
            landmark_of[row[id_at]] = intern(row[landmark_at])  # one text a landmark, not one a row
    return landmark_of, nameless


def _is_version_2(place: Path, landmark_of: dict[str, str]) -> bool:
    beside = any((place / name).is_file() for name in _VERSION_2_FILES)
    return beside or len(set(landmark_of.values())) > VERSION_1_LANDMARKS


def _on_disk(place: Path, landmark_of: dict[str, str]) -> tuple[dict[str, list[str]], int]:
    """The image files of each landmark, and how many others there are. Takes what it finds out of `landmark_of`."""
    paths_of, strange = dict[str, list[str]](), 0
    for inner in _PLACES:
        if (place / inner).is_dir():
            for path in _images_below(str(place / inner), levels=3):
                image_id = path.rpartition(os.sep)[2].rpartition(".")[0]
                landmark = landmark_of.pop(image_id, None)  # each image once, wherever it lies first
                if landmark is None:
                    strange += 1
                else:
                    paths_of.setdefault(landmark, []).append(path)
    return paths_of, strange


def _images_below(folder: str, levels: int) -> Iterator[str]:
    """The images in this folder, then those in its folders of one character; in a fixed order."""
    images, inner = list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_image(entry.name):
                images.append(entry.path)
            elif levels and len(entry.name) == 1 and entry.is_dir():
                inner.append(entry.path)
    yield from sorted(images)
    for path in sorted(inner):
        yield from _images_below(path, levels - 1)
