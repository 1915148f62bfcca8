"""The data sets that have a name: one table. Light, so that listings need no torch: loaders stand in it as texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from scail.config import DataSettings

if TYPE_CHECKING:
    from scail.datasets.dataset import Dataset, Found
    from scail.datasets.listing import Listing

    Loader = Callable[[Path | None, DataSettings], Dataset | Found | Listing | None]


@dataclass(frozen=True)
class CatalogRow:
    """One data set: what it is, how to get it, and who loads it."""

    summary: str
    source: str
    """The module, and the function in it: `load(place, settings)`.

    `place` is the folder of its name in `SCAIL_DATA`, if there is one. It gives images in memory (`Dataset`), images on
    disk (`Found`), a list of image files (`Listing`), or None where the data set is not here.
    """
    how_to_get: str | None = None
    """What to do where it is missing, with `{place}` for its folder; None: it is embedded, at a size of its own."""
    hub: str | None = None
    """Its repository on the Hub, where it is looked for there, too."""

    def loader(self) -> Loader:
        """The function that loads it; imported now."""
        module, _, function = self.source.partition(":")
        load: Loader = getattr(import_module(module), function)
        return load


DATASETS: dict[str, CatalogRow] = {
    "glyphs": CatalogRow(
        "characters of several scripts, drawn here from matplotlib's fonts (embedded; 100 classes, up to 134)",
        "scail.datasets.sources.glyphs:load",
    ),
    "digits": CatalogRow(
        "scikit-learn's scans of handwritten digits, 8 x 8 pixels (embedded; 10 classes)",
        "scail.datasets.sources.digits:load",
    ),
    "mnist": CatalogRow(
        "handwritten digits, 28 x 28 pixels (the four original IDX files, gzipped or not; 10 classes)",
        "scail.datasets.sources.mnist:load",
        "put train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each "
        "perhaps with .gz, into {place}",
    ),
    "cifar100": CatalogRow(
        "100 classes of 32 x 32 photographs (Parquet files of the Hub, or the original archive)",
        "scail.datasets.sources.cifar100:load",
        "hf download uoft-cs/cifar100 --repo-type dataset, or put its Parquet files or the original "
        "cifar-100-python.tar.gz into {place}",
        hub="uoft-cs/cifar100",
    ),
    "ilsvrc": CatalogRow(
        "ImageNet's 1000 classes of photographs, iCaRL's order and split (train/, val/, the devkit; or the Hub)",
        "scail.datasets.sources.ilsvrc:load",
        "put train/<wnid>/*.JPEG (and val/, for the official validation images) and ILSVRC2012_devkit_t12.tar.gz into "
        "{place}, or hf download ILSVRC/imagenet-1k --repo-type dataset",
        hub="ILSVRC/imagenet-1k",
    ),
    "vggface2": CatalogRow(
        "faces: the 1000 identities with the most images (train/; see `scail prepare vggface2`)",
        "scail.datasets.sources.vggface2:load",
        "put train/<identity>/*.jpg into {place}; faces are cropped by: scail prepare vggface2 SRC {place}",
    ),
    "landmarks": CatalogRow(
        "Google Landmarks, version 1: the 1000 largest classes (train.csv and images)",
        "scail.datasets.sources.landmarks:load",
        "put train.csv of Google Landmarks version 1 and its images, as ID.jpg, into {place}",
    ),
}
OTHERS: dict[str, str] = {
    "NAME": "a folder of this name in SCAIL_DATA, of one of the kinds below",
    "hf:owner/name": "a data set of the Hugging Face hub, after: hf download owner/name --repo-type dataset",
    "PATH": "a folder with a sub-folder of images per class, or train/ and test/ of such; a folder of Parquet files as "
    "on the hub; what `scail prepare` made; a file of `path label` lines, or a manifest",
}


def is_embedded(name: str) -> bool:
    """Whether this data set comes with scail: nothing to look for, and images of a size of their own."""
    return name in DATASETS and DATASETS[name].how_to_get is None


def summaries() -> dict[str, str]:
    """Everything that can be asked for, and what it is."""
    return {name: row.summary for name, row in DATASETS.items()} | OTHERS
