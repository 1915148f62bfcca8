"""Where images come from: data sets by name."""

from __future__ import annotations

from pathlib import Path

import torch

from scail.datasets.catalog import DATASETS
from scail.datasets.dataset import Dataset, Split

__all__ = ["DATASETS", "Dataset", "Split", "load_dataset"]


def load_dataset(
    name: str, *, classes: int | None = None, images_per_class: int | None = None, image_size: int | None = None
) -> Dataset:
    """The data set of this name or path: `classes` of it, with at most `images_per_class` training images each.

    `glyphs` draws exactly what is asked for; the other sets are cut down to it. `glyphs` and files of one's own have a
    free `image_size`.
    """
    if name not in DATASETS:
        if not Path(name).exists():
            known = ", ".join(DATASETS)
            raise ValueError(f"unknown data set {name!r}; known: {known}, or an existing folder or list file of images")
        from scail.datasets.files import load_files

        return _cut_down(load_files(Path(name), image_size), classes, images_per_class)
    if name == "glyphs":
        from scail.datasets.glyphs import load_glyphs

        asked = {"classes": classes, "train": images_per_class, "size": image_size}
        return load_glyphs(**{key: value for key, value in asked.items() if value is not None})
    if image_size is not None:
        raise ValueError(
            f"image size {image_size}: only glyphs and files of one's own can have any; {name} has its own"
        )
    if name == "digits":
        from scail.datasets.digits import load_digits as load
    else:
        from scail.datasets.cifar100 import load_cifar100 as load
    return _cut_down(load(), classes, images_per_class)


def _cut_down(dataset: Dataset, classes: int | None, images_per_class: int | None) -> Dataset:
    """The first `classes` classes, and the first `images_per_class` training images of each."""
    known = len(dataset.class_names)
    if classes is None and images_per_class is None:
        return dataset
    kept = known if classes is None else classes
    if not 2 <= kept <= known:
        raise ValueError(f"{dataset.name}: classes is {kept}, expected 2 to {known}")
    if images_per_class is not None and images_per_class < 1:
        raise ValueError(f"{dataset.name}: images per class is {images_per_class}, expected at least 1")

    def cut(split: Split, most: int | None) -> Split:
        rows = torch.cat([(split.labels == c).nonzero().flatten()[:most] for c in range(kept)]).sort().values
        return Split(split.images[rows], split.labels[rows])

    train, test = cut(dataset.train, images_per_class), cut(dataset.test, None)
    return Dataset(dataset.name, dataset.class_names[:kept], train, test, dataset.mirror)
