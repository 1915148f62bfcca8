"""The 50,000 validation images of ILSVRC2012 and their classes, which are not in the images' names."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

from scail.datasets.scan import class_folders, images_in
from scail.datasets.sources.devkit import NAME as DEVKIT
from scail.datasets.sources.devkit import Devkit
from scail.storage.reading import MOST_LINES, read_text

KAGGLE_LABELS = "LOC_val_solution.csv"


def validation_images(
    val: Path, devkit: Devkit | None, beside: Sequence[Path]
) -> tuple[dict[str, list[str]], str, list[str]]:
    """The validation images of each class, what named their classes, and what must be said about them.

    `val` has class folders, or all images right in it; the devkit or Kaggle's table, in one of the folders `beside`,
    then has their classes.
    """
    if not val.is_dir():
        raise ValueError(f"ilsvrc: no folder {val}: split official needs the validation images there; or split icarl")
    folders, loose = class_folders(val), images_in(val)
    if folders and loose:
        raise ValueError(f"{val}: both class folders and loose images, e.g. {loose[0]}; keep one of the two")
    if folders:
        if devkit and (strange := sorted(folders.keys() - set(devkit.wnids))):
            raise ValueError(f"{val}: class folder {strange[0]!r} is unknown to {devkit.path}; remove it")
        return {name: images_in(folder) for name, folder in folders.items()}, "their folders", []
    if not loose:
        raise ValueError(f"{val}: no images; unpack ILSVRC2012_img_val.tar there")
    wnid_of, source = _labels(val, devkit, beside)
    found: dict[str, list[str]] = {}
    for path in loose:
        stem = Path(path).stem
        if stem not in wnid_of:
            raise ValueError(
                f"{path}: no class for it in {source}; expected ILSVRC2012_val_<number of 8 digits>.JPEG, up to number "
                f"{len(wnid_of)}"
            )
        found.setdefault(wnid_of[stem], []).append(path)
    absent = len(wnid_of) - len({Path(path).stem for path in loose})
    return found, source.name, [f"{absent:,} of {len(wnid_of):,} validation images are not on disk"] if absent else []


def _labels(val: Path, devkit: Devkit | None, beside: Sequence[Path]) -> tuple[dict[str, str], Path]:
    """The class of each image, by file name without ending, and where that is said."""
    if devkit and devkit.truth is not None:
        wnids = devkit.validation_wnids()
        return {f"ILSVRC2012_val_{n:08}": wnid for n, wnid in enumerate(wnids, 1)}, devkit.path
    for place in beside:
        if (place / KAGGLE_LABELS).is_file():
            return dict(_kaggle_labels(place / KAGGLE_LABELS)), place / KAGGLE_LABELS
    raise ValueError(
        f"{val}: images without class folders need labels: put {DEVKIT}.tar.gz or Kaggle's {KAGGLE_LABELS} into "
        f"{beside[0]}"
    )


def _kaggle_labels(table: Path) -> Iterator[tuple[str, str]]:
    """Rows of ImageId and PredictionString, `wnid x y x y` once or more."""
    rows = csv.DictReader(StringIO(read_text(table, MOST_LINES), newline=""))
    try:
        if not {"ImageId", "PredictionString"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{table}, line 1: expected the columns ImageId,PredictionString")
        for row in rows:
            boxes = (row["PredictionString"] or "").split()
            if not row["ImageId"] or not boxes:
                raise ValueError(f"{table}, line {rows.line_num}: expected an image id and a wnid with its box")
            yield row["ImageId"], boxes[0]
    except csv.Error as error:
        raise ValueError(f"{table}, line {rows.line_num}: not CSV ({error}); download it again") from error
