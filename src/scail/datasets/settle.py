"""From what was found to the data set that is used: test images held out, cut down, broken images left out, decoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from scail.config import DataSettings
from scail.datasets.dataset import Dataset, Found, Images, Split
from scail.datasets.images.on_disk import ImageTable
from scail.runtime.seeds import generator_for
from scail.storage.cache import IMAGES, cache_dir, cached_tensors, images_are_kept, keep, kept

Source = TypeVar("Source", Found, Dataset)
_LARGEST_IN_MEMORY = 64  # pixels: beyond, regions of the original image are worth more than a scaled copy
_KEPT = "decoded copies of its images are kept in the cache; `scail store ls` lists them, --no-image-cache keeps none"
_MOST_IN_MEMORY = 2 * 2**30  # bytes. Fixed, not what this machine has: it decides how images are augmented


def settle(found: Found | Dataset, settings: DataSettings) -> Dataset:
    """The data set that these settings ask for; one that is in memory has nothing to decode."""
    if isinstance(found, Dataset):
        dataset = hold_out_share(found, settings) if settings.tune else found
        return cut_down(dataset, settings.classes, settings.images_per_class)
    found = without_untaught(found)
    if settings.broken == "skip":
        found = without_broken(found)
    if found.test is None or settings.tune:
        found = hold_out_share(found, settings)
    assert found.test is not None
    dataset = Dataset(
        found.name, found.class_names, found.train, found.test, True, found.split, found.icarl, found.notes
    )
    dataset = cut_down(dataset, settings.classes, settings.images_per_class)
    if settings.on_disk or (settings.on_disk is None and not _fits(dataset)):
        return dataset
    notes = (*dataset.notes, _KEPT) if images_are_kept() else dataset.notes
    return replace(dataset, train=_in_memory(dataset.train), test=_in_memory(dataset.test), notes=notes)


def _fits(dataset: Dataset) -> bool:
    channels, height, width = dataset.shape
    count = len(dataset.train) + len(dataset.test)
    return max(height, width) <= _LARGEST_IN_MEMORY and count * channels * height * width <= _MOST_IN_MEMORY


def _in_memory(split: Split) -> Split:
    images = _table(split.images)
    if not images_are_kept():
        return Split(images.in_memory(), split.labels)
    name = f"{IMAGES}{hashlib.sha256(images.stamp()).hexdigest()[:16]}"
    return Split(cached_tensors(name, lambda: {"images": images.in_memory()})["images"], split.labels)


def _table(images: Images) -> ImageTable:
    assert isinstance(images, ImageTable)
    return images


def cut_down(dataset: Dataset, classes: int | None, images_per_class: int | None) -> Dataset:
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
        rows = torch.cat([of_class[:most] for of_class in rows_by_class(split.labels, known)[:kept]]).sort().values
        return Split(split.images[rows], split.labels[rows])

    train, test = cut(dataset.train, images_per_class), cut(dataset.test, None)
    return replace(dataset, class_names=dataset.class_names[:kept], train=train, test=test)


def rows_by_class(labels: Tensor, classes: int) -> list[Tensor]:
    """For each class the rows of its images, in order; sorted once: a million labels cannot be searched for each."""
    order = np.argsort(labels.numpy(), kind="stable")  # labels are often sorted already: numpy's is then at once done
    return list(torch.from_numpy(order).split(torch.bincount(labels, minlength=classes).tolist()))


def hold_out_share(found: Source, settings: DataSettings) -> Source:
    """The settings' share of each class's training images becomes the test images."""
    share = settings.held_out
    said = f"{100 * share:g}% of each class held out{' of its training images, to tune' if settings.tune else ''}"
    return hold_out(found, settings.split_seed, lambda count: max(1, round(share * count)), said)


def hold_out(found: Source, seed: int, count_of: Callable[[int], int], said: str) -> Source:
    """count_of(n) of the n images of each class become test images, drawn by seed."""
    train, test = list[Tensor](), list[Tensor]()
    for name, rows in zip(found.class_names, rows_by_class(found.train.labels, len(found.class_names)), strict=True):
        count = count_of(len(rows))
        if len(rows) <= count:
            raise ValueError(
                f"{found.name}: class {name!r} has {len(rows)} image(s): at least {count + 1} are needed, {count} to "
                "test and one to train"
            )
        order = torch.randperm(len(rows), generator=generator_for(seed, "held out", name))
        test.append(rows[order[:count].sort().values])
        train.append(rows[order[count:].sort().values])
    parts = [Split(found.train.images[rows], found.train.labels[rows]) for rows in (torch.cat(train), torch.cat(test))]
    return replace(found, train=parts[0], test=parts[1], split=f"{said}, seed {seed}")


def without_untaught(found: Found) -> Found:
    """Without classes that have test images and no training images: nothing can learn them. A note names them."""
    lost = untaught(found)
    if not lost or found.test is None:
        return found
    stay = torch.tensor([name not in lost for name in found.class_names])
    test, number = found.test, stay.cumsum(0) - 1
    rows = (stay[test.labels] | (test.labels < 0)).nonzero().flatten()

    def renumbered(labels: Tensor) -> Tensor:
        return torch.where(labels < 0, labels, number[labels])

    return replace(
        found, class_names=tuple(name for name in found.class_names if name not in lost),
        train=Split(found.train.images, renumbered(found.train.labels)),
        test=Split(test.images[rows], renumbered(test.labels[rows])),
        notes=(*found.notes, f"{no_training_images(lost)}; they are left out"),
    )  # fmt: skip


def untaught(found: Found) -> list[str]:
    """The classes that have test images and no training images."""
    if found.test is None:
        return []
    learned, shown = (set(part.labels.tolist()) for part in (found.train, found.test))
    return [name for c, name in enumerate(found.class_names) if c in shown - learned]


def no_training_images(names: list[str]) -> str:
    """What to say of these classes."""
    named = ", ".join(names[:5]) + (f", and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{len(names)} class(es) have test images but no training images: {named}"


def without_broken(found: Found) -> Found:
    """Without the images that cannot be read; every image is opened once, and what was found is kept in the cache."""
    notes = list(found.notes)

    def sound(part: str, split: Split) -> Split:
        broken = _broken_rows(_table(split.images))
        if broken:
            first = next(iter(broken.values())).partition(";")[0]  # without what could be done: it is done
            notes.append(f"{len(broken)} broken {part} image(s) left out, the first: {first}")
        kept = torch.ones(len(split), dtype=torch.bool)
        kept[list(broken)] = False
        return Split(split.images[kept.nonzero().flatten()], split.labels[kept])

    train, test = sound("training", found.train), found.test and sound("test", found.test)
    return replace(found, train=train, test=test, notes=tuple(notes))


def _broken_rows(images: ImageTable) -> dict[int, str]:
    place = cache_dir() / f"broken-{hashlib.sha256(images.stamp()).hexdigest()[:16]}.json"
    try:
        return {int(row): text for row, text in json.loads(kept(place) or b"").items()}
    except ValueError:
        from rich.progress import Progress

        with Progress(transient=True) as bar:
            task = bar.add_task("looking for broken images", total=len(images))
            found = images.find_broken(lambda count: bar.advance(task, count))
        keep(place, json.dumps(found).encode())
        return found
