"""`vggface2`: faces of the identities with the most images, as the paper chose them."""

from __future__ import annotations

from pathlib import Path

from scail.config import DataSettings
from scail.datasets.listing import Listing, hold_out, largest_classes
from scail.datasets.scan import class_folders, count_images, images_in, training_folder

PLACES = ("train", "data/train", "vggface2_train/train")


def load(place: Path | None, settings: DataSettings) -> Listing | None:
    """The paper's selection of the images in this folder."""
    return None if place is None else list_vggface2(place, settings.classes or 1000, seed=settings.split_seed)


def list_vggface2(folder: Path | str, classes: int = 1000, test_images: int = 50, seed: int = 0) -> Listing:
    """The `classes` identities with the most images in `train/<identity>/`, `test_images` of each held out by seed.

    VGGFace2's own test folder has other identities and is not used. The paper's 1000 identities have 491,746 training
    and 50,000 test images.
    """
    train = training_folder("vggface2", Path(folder).absolute(), PLACES)
    folders = class_folders(train)
    # Counted first and listed then: three million paths are not kept for the third of them that is used.
    counts = {name: count for name, place in folders.items() if (count := count_images(place))}
    names = sorted(largest_classes(counts, classes, where=f"vggface2, {train}"))
    parts = hold_out({name: images_in(folders[name]) for name in names}, test_images, seed, f"vggface2, {train}")
    cut = f"{len(names)} identities with the most images; seed {seed}: {test_images} a class held out of train"
    return Listing("vggface2", tuple(names), *parts, split=cut)
