"""Where images come from: data sets by name or place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scail.config import FILES_SIZE, DataSettings
from scail.datasets.catalog import DATASETS
from scail.datasets.dataset import Dataset, Found, Images, Split
from scail.datasets.images.packed import is_packed, load_packed
from scail.datasets.listing import Listing, found_of, is_manifest, keep_manifest, read_manifest
from scail.datasets.scan import class_folders, count_images
from scail.datasets.settle import cut_down, hold_out_share, settle, without_broken

__all__ = ["DATASETS", "DataSettings", "Dataset", "Images", "Split", "load_dataset", "load_part"]


def load_dataset(name: str, settings: DataSettings | None = None) -> Dataset:
    """The data set of this name or at this place, as the settings ask for it.

    `name` is one of `DATASETS`, a folder in `SCAIL_DATA`, `hf:owner/name`, or the path of a folder or list file.
    `glyphs` draws exactly what is asked for; the other sets are cut down to it.
    """
    settings = settings or DataSettings()
    if name == "glyphs":
        from scail.datasets.sources.glyphs import load_glyphs

        asked = {"classes": settings.classes, "train": settings.images_per_class, "size": settings.image_size}
        glyphs = load_glyphs(**{key: value for key, value in asked.items() if value is not None})
        return hold_out_share(glyphs, settings) if settings.tune else glyphs
    if name == "digits":
        from scail.datasets.sources.digits import load_digits

        if settings.image_size is not None:
            raise ValueError(f"image size {settings.image_size}: digits has its own, 8 pixels")
        digits = hold_out_share(load_digits(), settings) if settings.tune else load_digits()
        return cut_down(digits, settings.classes, settings.images_per_class)
    return settle(_find(name, settings), settings)


def load_part(name: str, settings: DataSettings, test: bool) -> tuple[Split, tuple[str, ...], bool]:
    """One part of a data set as it is: images and labels, class names, and whether mirrored images keep their class.

    The training images; or those to test with, which are all images where a data set has no test part of its own.
    Nothing is held out, nothing is kept in the cache.
    """
    if name in ("glyphs", "digits"):
        dataset = load_dataset(name, settings)
        return dataset.test if test else dataset.train, dataset.class_names, dataset.mirror
    place = Path(name)
    if place.is_dir() and count_images(place) and not class_folders(place):
        raise ValueError(f"{name}: images without labels cannot be learned; put them into one folder per class")
    found = _find(name, settings)
    found = without_broken(found) if settings.broken == "skip" else found
    return found.test if test and found.test is not None else found.train, found.class_names, True


def _find(name: str, settings: DataSettings) -> Found:
    """Look for it: by name among one's data sets and in the Hub's caches, or where the path leads."""
    from scail.datasets.places import missing, own_folder

    size, workers = settings.image_size or FILES_SIZE, settings.workers
    columns = (settings.image_column, settings.label_column)
    if name.startswith("hf:"):
        from scail.datasets.sources.hub import load_hub

        return load_hub(name, size, workers, columns)
    place = own_folder(name) if name in DATASETS or not Path(name).exists() else Path(name)
    if place and place.is_dir() and is_packed(place):
        return load_packed(place, size, workers)
    if name == "cifar100":
        from scail.datasets.sources.cifar100 import load_cifar100

        return load_cifar100(settings.image_size or 32, workers)
    if name in DATASETS:
        listed = _list(name, place, settings)
        if listed:
            return found_of(listed, size, workers)
        if name != "ilsvrc":
            raise missing(name)
        from scail.datasets.sources.ilsvrc_hub import load_ilsvrc_from_hub

        return load_ilsvrc_from_hub(settings.split, settings.split_seed, size, workers)
    if place is None:
        known = ", ".join(DATASETS)
        raise ValueError(
            f"unknown data set {name!r}; known: {known}, hf:owner/name, a folder in SCAIL_DATA, or the path of an "
            "existing folder or list file of images"
        )
    if place.is_dir() and next(place.rglob("*.parquet"), None):
        from scail.datasets.sources.hub import load_hub_folder

        return load_hub_folder(place, place.resolve().name, size, workers, columns)
    if is_manifest(place):
        return found_of(read_manifest(place), size, workers)
    from scail.datasets.sources.files import load_files

    return load_files(place, size, workers)


def _list(name: str, place: Path | None, settings: DataSettings) -> Listing | None:
    """The paper's selection of one of its large data sets; also written down as a manifest."""
    from scail.datasets.sources.ilsvrc import is_ilsvrc, list_ilsvrc
    from scail.datasets.sources.landmarks import list_landmarks
    from scail.datasets.sources.vggface2 import list_vggface2

    if place is None or (name == "ilsvrc" and not is_ilsvrc(place)):
        return None
    count, seed = settings.classes or 1000, settings.split_seed
    if name == "ilsvrc":
        listing = list_ilsvrc(place, settings.split, settings.classes, seed)
    elif name == "vggface2":
        listing = list_vggface2(place, count, seed=seed)
    else:
        listing = list_landmarks(place, count, seed=seed)
    return replace(listing, notes=(*listing.notes, f"its images are listed in {keep_manifest(listing)}"))
