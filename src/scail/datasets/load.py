"""A data set by name or place: looked for, then settled as it is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scail.config import FILES_SIZE, DataSettings
from scail.datasets.catalog import DATASETS, is_embedded
from scail.datasets.dataset import Dataset, Found, Split
from scail.datasets.images.packed import is_packed, load_packed
from scail.datasets.listing import Listing, found_of, is_manifest, keep_manifest, read_manifest
from scail.datasets.places import missing, own_folder
from scail.datasets.scan import class_folders, count_images
from scail.datasets.settle import settle, without_broken
from scail.datasets.sources.files import load_files
from scail.datasets.sources.hub import load_hub, load_hub_folder


def load_dataset(name: str, settings: DataSettings | None = None) -> Dataset:
    """The data set of this name or at this place, as the settings ask for it.

    `name` is one of `DATASETS`, a folder in `SCAIL_DATA`, `hf:owner/name`, or the path of a folder or list file.
    `glyphs` draws exactly what is asked for; the other sets are cut down to it.
    """
    settings = settings or DataSettings()
    return settle(_find(name, settings), settings)


def load_part(name: str, settings: DataSettings, test: bool) -> tuple[Split, tuple[str, ...], bool]:
    """One part of a data set as it is: images and labels, class names, and whether mirrored images keep their class.

    The training images; or those to test with, which are all images where a data set has no test part of its own.
    Nothing is held out, nothing is kept in the cache.
    """
    place = Path(name)
    if name not in DATASETS and place.is_dir() and count_images(place) and not class_folders(place):
        raise ValueError(f"{name}: images without labels cannot be learned; put them into one folder per class")
    found = _find(name, settings)
    if isinstance(found, Dataset):
        dataset = settle(found, settings)
        return dataset.test if test else dataset.train, dataset.class_names, dataset.mirror
    found = without_broken(found) if settings.broken == "skip" else found
    return found.test if test and found.test is not None else found.train, found.class_names, True


def _find(name: str, settings: DataSettings) -> Found | Dataset:
    """Look for it: by name among one's data sets and in the Hub's caches, or where the path leads."""
    size, workers = settings.image_size or FILES_SIZE, settings.workers
    if name in DATASETS:
        return _find_known(name, settings, size)
    columns = (settings.image_column, settings.label_column)
    if name.startswith("hf:"):
        return load_hub(name, size, workers, columns)
    place = Path(name) if Path(name).exists() else own_folder(name)
    if place is None:
        known = ", ".join(DATASETS)
        raise ValueError(
            f"unknown data set {name!r}; known: {known}, hf:owner/name, a folder in SCAIL_DATA, or the path of an "
            "existing folder or list file of images"
        )
    if is_packed(place):
        return load_packed(place, size, workers)
    if place.is_dir() and next(place.rglob("*.parquet"), None):
        return load_hub_folder(place, place.resolve().name, size, workers, columns)
    if is_manifest(place):
        return found_of(read_manifest(place), size, workers)
    return load_files(place, size, workers)


def _find_known(name: str, settings: DataSettings, size: int) -> Found | Dataset:
    """A row of the catalog; of one that lists image files, the list is written down as a manifest."""
    place = None if is_embedded(name) else own_folder(name)
    if place and is_packed(place):
        return load_packed(place, size, settings.workers)
    found = DATASETS[name].loader()(place, settings)
    if found is None:
        raise missing(name)
    if not isinstance(found, Listing):
        return found
    listing = replace(found, notes=(*found.notes, f"its images are listed in {keep_manifest(found)}"))
    return found_of(listing, size, settings.workers)
