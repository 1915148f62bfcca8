"""`ilsvrc` from the Hub's imagenet-1k: its labels follow the alphabet of WordNet ids, iCaRL's order the devkit's."""

from __future__ import annotations

from dataclasses import replace

import torch

from scail.datasets.catalog import DATASETS
from scail.datasets.dataset import Found, Split
from scail.datasets.places import NotHere, data_dir, missing
from scail.datasets.settle import hold_out
from scail.datasets.sources.devkit import find_devkit
from scail.datasets.sources.hub import load_hub
from scail.datasets.sources.ilsvrc import HELD_OUT, IlsvrcSplit


def load_ilsvrc_from_hub(split: IlsvrcSplit, seed: int, size: int, workers: int) -> Found:
    """The Hub's copy, if it was downloaded; the devkit is looked for in `SCAIL_DATA/ilsvrc` and `SCAIL_DATA`."""
    try:
        found = load_hub(f"hf:{DATASETS['ilsvrc'].hub}", size, workers)
    except NotHere as error:
        raise missing("ilsvrc") from error
    found = in_devkit_order(replace(found, name="ilsvrc"))
    if split == "icarl":
        return hold_out(found, seed, lambda count: HELD_OUT, f"icarl: {HELD_OUT} a class held out of train")
    return replace(found, split="official: all of train, its own validation images")


def in_devkit_order(found: Found) -> Found:
    """Classes renumbered from the alphabet of WordNet ids to the devkit's ids, where the devkit is at hand."""
    devkit = find_devkit((data_dir() / "ilsvrc", data_dir()))
    if devkit is None:
        return replace(found, icarl="unknown")
    if len(devkit.wnids) != len(found.class_names):
        raise ValueError(f"{devkit.path} has {len(devkit.wnids)} classes, the Hub's copy {len(found.class_names)}")
    alphabet = sorted(devkit.wnids)
    position = {wnid: n for n, wnid in enumerate(devkit.wnids)}
    number = torch.tensor([position[wnid] for wnid in alphabet])
    names = tuple(found.class_names[alphabet.index(wnid)] for wnid in devkit.wnids)

    def renumbered(split: Split | None) -> Split | None:
        return split and Split(split.images, number[split.labels])

    train = renumbered(found.train)
    assert train is not None
    return replace(found, class_names=names, train=train, test=renumbered(found.test), icarl="positions")
