"""Folders of very many images: listed without opening or asking after any single file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from scail.datasets.images.decode import ENDINGS


def is_image(name: str) -> bool:
    """Whether a file of this name is an image, by its ending; hidden files are not."""
    return name[name.rfind(".") :].lower() in ENDINGS and not name.startswith(".")


def images_in(folder: Path | str) -> list[str]:
    """The paths of the images right in this folder, sorted: directories have no order of their own."""
    with os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries if is_image(entry.name))


def count_images(folder: Path | str) -> int:
    """How many images are right in this folder."""
    with os.scandir(folder) as entries:
        return sum(is_image(entry.name) for entry in entries)


def class_folders(folder: Path) -> dict[str, str]:
    """The path of each folder right in this one, by name, sorted; hidden ones are left out."""
    with os.scandir(folder) as entries:
        return dict(sorted((e.name, e.path) for e in entries if e.is_dir() and not e.name.startswith(".")))


def training_folder(name: str, folder: Path, places: Sequence[str]) -> Path:
    """The first of `places` in `folder` that exists."""
    for place in places:
        if (folder / place).is_dir():
            return folder / place
    raise ValueError(
        f"{name}: no training images in {folder}: expected a folder of images per class in {' or '.join(places)} there"
    )
