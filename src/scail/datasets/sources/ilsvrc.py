"""`ilsvrc`: the 1000 classes of ILSVRC2012, in the layouts in which it is usually on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from scail.config import FILES_SIZE, DataSettings
from scail.datasets.dataset import Found, Icarl
from scail.datasets.listing import Listing, Part, hold_out
from scail.datasets.scan import class_folders, images_in, training_folder
from scail.datasets.sources.devkit import NAME as DEVKIT
from scail.datasets.sources.devkit import Devkit, find_devkit
from scail.datasets.sources.ilsvrc_val import validation_images

IlsvrcSplit = Literal["icarl", "official"]
PLACES = ("train", "ILSVRC/Data/CLS-LOC/train", "Data/CLS-LOC/train")
HELD_OUT = 50
"""Test images a class in iCaRL's split."""


def load(place: Path | None, settings: DataSettings) -> Listing | Found:
    """The images of this folder; without a training folder (it may have the devkit alone) the Hub's copy."""
    if place and any((place / train).is_dir() for train in PLACES):
        return list_ilsvrc(place, settings.split, settings.classes, settings.split_seed)
    from scail.datasets.sources.ilsvrc_hub import load_ilsvrc_from_hub  # which needs this file

    size = settings.image_size or FILES_SIZE
    return load_ilsvrc_from_hub(settings.split, settings.split_seed, size, settings.workers)


def list_ilsvrc(folder: Path | str, split: IlsvrcSplit = "icarl", classes: int | None = None, seed: int = 0) -> Listing:
    """The images of `train/<wnid>/`, and the test images of this split; the first `classes` classes.

    `icarl` holds 50 images a class out of the training folder, as iCaRL and the paper do (1,231,167 training and 50,000
    test images); its own draw hangs on the order of a directory, so here the seed draws them. `official` trains on the
    whole training folder and tests on the 50,000 validation images.

    With the devkit in the folder or the one above, classes are in the order of its ids, else in the alphabet's.
    """
    if split not in get_args(IlsvrcSplit):
        raise ValueError(f"ilsvrc: split {split!r}, expected {' or '.join(get_args(IlsvrcSplit))}")
    place = Path(folder).absolute()
    train_place = training_folder("ilsvrc", place, PLACES)
    beside = (place, train_place.parent, place.parent)
    devkit, folders = find_devkit(beside), class_folders(train_place)
    names, icarl, notes = _choose(train_place, folders, devkit, classes)
    paths = {name: images_in(folders[name]) for name in names}
    if split == "icarl":
        train, test = hold_out(paths, HELD_OUT, seed, f"ilsvrc, {train_place}")
        cut = f"icarl, seed {seed}: {HELD_OUT} a class held out of train"
    else:
        train, test = Part(), Part()
        found, labels_from, more = validation_images(train_place.parent / "val", devkit, beside)
        for label, name in enumerate(names):
            train.add(paths[name], label)
            test.add(sorted(found.get(name, [])), label)
        if left_out := sum(map(len, found.values())) - len(test):
            more = [*more, f"{left_out:,} validation images of classes that are not listed are left out"]
        cut, notes = f"official: all of train, validation images labelled by {labels_from}", [*notes, *more]
    try:
        return Listing("ilsvrc", tuple(names), train, test, cut, icarl, tuple(notes))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _choose(
    place: Path, folders: Mapping[str, str], devkit: Devkit | None, classes: int | None
) -> tuple[list[str], Icarl, list[str]]:
    """The classes in order, how iCaRL's shuffle is to be read for them, and what is to be said about it."""
    known = list(folders) if devkit is None else _in_devkit_order(place, folders, devkit)
    count = len(known) if classes is None else classes
    if not 2 <= count <= len(known):
        raise ValueError(
            f"ilsvrc: classes is {count}, expected 2 to {len(known)}, the class folders in {place}; "
            "unpack the others there, or take another number (`scail run --classes N`)"
        )
    names = known[:count]
    if devkit is None:
        return names, "unknown", [f"no {DEVKIT} found: classes are in the alphabet's order, not in the devkit's"]
    missing = [wnid for wnid in devkit.wnids[:classes] if wnid not in folders]
    if not missing:
        return names, "positions", []
    note = f"{len(missing)} of the devkit's first {len(devkit.wnids[:classes])} classes have no folder in train"
    # iCaRL's shuffle goes by ids 1..n: with a gap among them there is no such order.
    unbroken = tuple(names) == devkit.wnids[:count]
    return names, "positions" if unbroken else "unknown", [f"{note}, the first is {missing[0]}"]


def _in_devkit_order(place: Path, folders: Mapping[str, str], devkit: Devkit) -> list[str]:
    strange: Sequence[str] = sorted(folders.keys() - set(devkit.wnids))
    if strange:
        raise ValueError(
            f"{place}: class folder {strange[0]!r} ({len(strange)} such) is unknown to {devkit.path}; "
            "remove it from train, or use the devkit that belongs to these images"
        )
    return [wnid for wnid in devkit.wnids if wnid in folders]
