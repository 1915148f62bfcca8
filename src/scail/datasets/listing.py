"""Which image file belongs to which class and part, before any of them is opened."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import torch

from scail.datasets.dataset import Found, Icarl, Split
from scail.datasets.images.on_disk import table_of_files
from scail.datasets.manifest import open_manifest, read_header, read_rows, write_table
from scail.runtime.seeds import generator_for
from scail.storage.cache import cache_dir


@dataclass(frozen=True)
class Part:
    """Image files and their labels. Paths are texts: a million of `Path` is slow and large."""

    paths: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    """Indices into the listing's `class_names`."""

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, paths: Iterable[str], label: int) -> None:
        """These files too, all of one class."""
        self.paths.extend(paths)
        self.labels.extend([label] * (len(self.paths) - len(self.labels)))


@dataclass(frozen=True)
class Listing:
    """Which image files belong to which class and part, before any of them is opened."""

    name: str
    class_names: tuple[str, ...]
    train: Part
    test: Part
    split: str
    """How train and test were cut, for the record."""
    icarl: Icarl = "direct"
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""

    def __post_init__(self) -> None:
        if len(set(self.class_names)) != len(self.class_names):
            raise ValueError(f"{self.name}: two classes have the same name; names must be unique")
        for part, files in (("training", self.train), ("test", self.test)):
            self._check(part, files)

    def _check(self, part: str, files: Part) -> None:
        last = len(self.class_names) - 1
        if len(files.paths) != len(files.labels):
            raise ValueError(f"{self.name}: {len(files.paths)} {part} files with {len(files.labels)} labels")
        counts = Counter(files.labels)
        if strange := [label for label in counts if not 0 <= label <= last]:
            raise ValueError(f"{self.name}: a {part} label is {strange[0]}, expected 0 to {last}")
        if empty := [name for c, name in enumerate(self.class_names) if not counts[c]]:
            raise ValueError(
                f"{self.name}: no {part} images for {len(empty)} class(es), the first is {empty[0]!r}; "
                "add images of it, or leave the class out"
            )


def found_of(listing: Listing, size: int, workers: int) -> Found:
    """The listed images, still on disk."""

    def split(part: Part) -> Split:
        return Split(table_of_files(part.paths, size, workers), torch.tensor(part.labels))

    parts = (split(listing.train), split(listing.test))
    return Found(listing.name, listing.class_names, *parts, listing.split, listing.icarl, listing.notes)


def hold_out(
    paths_by_class: Mapping[str, Sequence[str]], count: int, seed: int, where: str = "data set"
) -> tuple[Part, Part]:
    """Training and test files: `count` test images a class, drawn by seed. Labels are as the classes are given.

    The draw goes by class name and file names alone: neither the order of a directory, nor where it is, nor which
    other classes there are changes it.
    """
    if count < 1:
        raise ValueError(f"{count} test images a class: expected at least 1")
    if short := [name for name, paths in paths_by_class.items() if len(paths) <= count]:
        found = len(paths_by_class[short[0]])
        raise ValueError(
            f"{where}: class {short[0]!r} has {found} image(s), expected at least {count + 1}: {count} to test "
            f"and one to train ({len(short)} of {len(paths_by_class)} classes have too few); add images, "
            "or take fewer classes (`scail run --classes N`)"
        )
    train, test = Part(), Part()
    for label, (name, paths) in enumerate(paths_by_class.items()):
        mine = sorted(paths, key=lambda path: (path.rpartition(os.sep)[2], path))
        order = torch.randperm(len(mine), generator=generator_for(seed, "held out", name)).tolist()
        test.add((mine[i] for i in sorted(order[:count])), label)
        train.add((mine[i] for i in sorted(order[count:])), label)
    return train, test


def largest_classes(counts: Mapping[str, int], n: int, where: str = "data set") -> tuple[str, ...]:
    """The `n` classes with the most images, largest first; of equally large ones the first by name.

    >>> largest_classes({"b": 5, "c": 9, "a": 5}, 2)
    ('c', 'a')
    """
    if not 2 <= n <= len(counts):
        raise ValueError(
            f"{where}: {n} classes asked for, expected 2 to {len(counts)}, as many as have images there; "
            "complete the folder, take another number (`scail run --classes N`), or give a folder by its path"
        )
    return tuple(sorted(counts, key=lambda name: (-counts[name], name))[:n])


def write_manifest(listing: Listing, path: Path | str) -> None:
    """Write the listing as a CSV file of path, class and part, with paths below a root folder named in its header."""
    parts = {"train": listing.train, "test": listing.test}
    folders = {file.rpartition(os.sep)[0] for part in parts.values() for file in part.paths}
    absolute = {folder: Path(folder or ".").absolute() for folder in folders}
    root = os.path.commonpath(absolute.values())
    below = {folder: (place.relative_to(root) / "_").as_posix()[:-1] for folder, place in absolute.items()}
    header: dict[str, object] = {"name": listing.name, "root": root, "split": listing.split, "icarl": listing.icarl}
    header |= {"notes": list(listing.notes), "classes": list(listing.class_names)}
    rows = (
        (below[folder] + name, listing.class_names[label], part)
        for part, files in parts.items()
        for (folder, _, name), label in zip((p.rpartition(os.sep) for p in files.paths), files.labels, strict=True)
    )
    write_table(Path(path), header, rows)


def keep_manifest(listing: Listing) -> Path:
    """Write the manifest into the cache, under a name that goes with its content."""
    digest = hashlib.sha256(repr(listing).encode(errors="surrogateescape")).hexdigest()[:16]
    path = cache_dir() / "manifests" / f"{listing.name}-{digest}.csv"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_manifest(listing, path)
    return path


def is_manifest(path: Path) -> bool:
    """Whether this file begins as a manifest does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(7) == b"# name:"


def read_manifest(path: Path | str, root: Path | str | None = None) -> Listing:
    """The listing that `write_manifest` wrote; `root` says where the images are now, if they have moved."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such manifest file")
    with open_manifest(path, "r") as file:
        header, lines = read_header(file, path)
        if header["icarl"] not in get_args(Icarl):
            raise ValueError(f"{path}: icarl is {header['icarl']!r}, expected {', '.join(get_args(Icarl))}")
        place = Path(root or header["root"])
        if not os.path.isdir(place):  # noqa: PTH112  # a name that no folder can have is none
            raise ValueError(f"{path}: its root folder {place} does not exist; correct the line '# root: ...'")
        parts = _parts_of(read_rows(file, path, lines), header["classes"], place.absolute())
    facts = header["split"], header["icarl"], tuple(header["notes"])
    try:
        return Listing(header["name"], tuple(header["classes"]), parts["train"], parts["test"], *facts)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _parts_of(rows: Iterable[tuple[str, str, str, str]], names: Sequence[str], root: Path) -> dict[str, Part]:
    prefix = f"{str(root).rstrip(os.sep)}{os.sep}"
    number = {name: c for c, name in enumerate(names)}
    parts, seen = {"train": Part(), "test": Part()}, set[str]()
    for where, image, name, part in rows:
        if name not in number:
            raise ValueError(f"{where}: class {name!r} is not in the line '# classes: ...'")
        if image in seen:
            raise ValueError(f"{where}: {image!r} is listed a second time; list each image once")
        seen.add(image)
        parts[part].add([prefix + image.replace("/", os.sep)], number[name])
    return parts
