"""A data set by name or place: looked for, then settled as it is asked for."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scail.config import FILES_SIZE, DataSettings
from scail.datasets.catalog import DATASETS, is_embedded
from scail.datasets.dataset import Dataset, Found, Split
from scail.datasets.images.packed import is_packed, load_packed
from scail.datasets.listing import Listing, found_of, is_manifest, keep_manifest, read_manifest
from scail.datasets.places import missing, own_folder
from scail.datasets.scan import class_folders, count_images
from scail.datasets.settle import no_training_images, settle, untaught
from scail.datasets.sources.files import load_files
from scail.datasets.sources.hub import load_hub, load_hub_folder


def load_dataset(name: str, settings: DataSettings | None = None) -> Dataset:
    """The data set of this name or at this place, as the settings ask for it.

    `name` is one of `DATASETS`, a folder in `SCAIL_DATA`, `hf:owner/name`, or the path of a folder or list file.
    `glyphs` draws exactly what is asked for; the other sets are cut down to it.
    """
    settings = settings or DataSettings()
    return settle(_find(name, settings), settings)


def load_part(
    name: str, settings: DataSettings, test: bool, nested: bool = False, say: Callable[[str], None] = lambda text: None
) -> tuple[Split, tuple[str, ...], bool]:
    """One part of a data set as it is: images and labels, class names, and whether mirrored images keep their class.

    `nested`: sub-folders of a class folder are classes of their own. `say` is told what is left out.

    The training images; or those to test with, which are all images where a data set has no test part of its own.
    Nothing is held out, nothing is kept in the cache.
    """
    place = Path(name)
    if name not in DATASETS and place.is_dir() and count_images(place) and not class_folders(place):
        raise ValueError(f"{name}: images without labels cannot be learned; put them into one folder per class")
    found = _find(name, settings, nested)
    if isinstance(found, Dataset):
        dataset = settle(found, settings)
        return dataset.test if test else dataset.train, dataset.class_names, dataset.mirror
    part = found.test if test and found.test is not None else found.train
    for note in found.notes:
        say(note)
    if not test and (lost := untaught(found)):
        say(no_training_images(lost))
    return part, found.class_names, True


def _find(name: str, settings: DataSettings, nested: bool | None = None) -> Found | Dataset:
    """Look for it: by name among one's data sets and in the Hub's caches, or where the path leads."""
    size, workers = settings.image_size or FILES_SIZE, settings.workers
    if name in DATASETS:
        return _find_known(name, settings, size)
    columns = (settings.image_column, settings.label_column)
    if name.startswith("hf:"):
        return load_hub(name, size, workers, columns)
    place = Path(name) if Path(name).exists() else own_folder(name)
    if place is None:
        raise ValueError(_not_there(name))
    if is_packed(place):
        return load_packed(place, size, workers)
    if place.is_dir() and next(place.rglob("*.parquet"), None):
        return load_hub_folder(place, place.resolve().name, size, workers, columns)
    if is_manifest(place):
        return found_of(read_manifest(place), size, workers)
    return load_files(place, size, workers, nested)


def _not_there(name: str) -> str:
    """What is wrong with this name: mostly a path that was mistyped."""
    place = Path(name).expanduser()
    inside = [path.name for path in place.parent.iterdir()] if place.parent.is_dir() else []
    near = [str(place.with_name(found)) for found in difflib.get_close_matches(place.name, inside, 1)]
    near += difflib.get_close_matches(name, DATASETS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    if len(Path(name).parts) > 1 or name.startswith((".", "~")):
        parents = [str(parent) for parent in reversed(place.parents) if not parent.exists()]
        return f"{name}: there is no such folder or list file" + (hint or (f": no {parents[0]}" if parents else ""))
    return (
        f"{name}: there is no such folder or list file here, and no data set of this name{hint or '.'} "
        f"Expected a path, hf:owner/name, or one of {', '.join(DATASETS)}"
    )


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
