"""Read a classifier from its folder, while others may be changing it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from scail.classifier.answering import MOST_ANSWER
from scail.classifier.folder.manifest import Manifest, TensorFile, read_manifest
from scail.classifier.folder.pictures import read_png
from scail.classifier.folder.record import TRIES, DamagedModel, FolderError, read_checked
from scail.classifier.model import Kept, Model, Seen
from scail.classifier.settings import Change
from scail.classifier.undoing import Before
from scail.datasets.images.on_disk import in_threads
from scail.exemplars import Memory
from scail.heads import Evidence
from scail.heads.evidence import TENSORS
from scail.learner import Learned
from scail.moments import Moments
from scail.networks.int8 import check_int8_graph
from scail.networks.network import Network, classes_of, network_from
from scail.storage.entry import not_finite
from scail.storage.tensor_head import check_head
from scail.training.trainer import check_shapes

_MOST_TENSORS = 16 * 2**30


@dataclass(frozen=True)
class Look:
    """A folder as it was at one moment."""

    manifest: Manifest
    stamp: str
    """Changes whenever the model does."""
    size: int
    """Bytes of its files."""


def look(root: Path) -> Look:
    """What the manifest says; nothing else is opened."""
    manifest, data = read_manifest(Path(root))
    size = len(data)
    for name in manifest.files():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # a learn that ended just now took it away
            size += (Path(root) / name).lstat().st_size
    return Look(manifest, hashlib.sha256(data).hexdigest(), size)


def read_model(root: Path, pictures: bool = True, without: Collection[str] = ()) -> tuple[Model, str]:
    """The model, every file checked, and its stamp. Without `pictures` it can classify but not learn.

    `without`: hashes of pictures that somebody has deleted; they are let go.

    A learn that ends meanwhile takes away files that the old manifest named: then all of it is read again.
    """
    root = Path(root)
    for _ in range(TRIES):
        manifest, data = read_manifest(root)
        try:
            found = _read(root, manifest, pictures, without=without)
            return _let_go(found, manifest, without) if without else found, hashlib.sha256(data).hexdigest()
        except FileNotFoundError as error:
            if read_manifest(root)[1] == data:
                raise missing(root, manifest, str(error.filename)) from error
        except OSError as error:
            raise DamagedModel(f"{root / str(error.filename)}: {error.strerror or error}") from error
    raise FolderError(f"{root}: changes faster than it can be read; try again")


def read_before(root: Path) -> tuple[Before | None, Change | None]:
    """What the model was before its last change, as far as it is kept, and what that change was. Hold the lock."""
    manifest = read_manifest(Path(root))[0]
    if manifest.before is None:
        return None, manifest.change
    try:
        found = _read(Path(root), manifest.before, True, manifest.pictures())
    except FileNotFoundError as error:
        raise missing(root, manifest, str(error.filename)) from error
    return Before(found, manifest.gone), manifest.change


def missing(root: Path, manifest: Manifest, name: str) -> DamagedModel:
    """The error about a file that is not there. Of a picture it also says how to take it out of the model."""
    told = f"{root / name}: is missing; restore it from a copy"
    for one in manifest.classes:
        if name.split("/")[-2:-1] == [one.folder]:
            model = shlex.quote(str(root))
            told += f", or take it out of the model: scail forget {model} {shlex.quote(one.name)} --images {name}"
            told += f" (or all that are missing: scail forget {model} --missing)"
    return DamagedModel(told)


def _read(
    root: Path, manifest: Manifest, pictures: bool, places: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> Model:  # fmt: skip
    """`places`: where pictures are, by their hashes; None: where this manifest has them."""
    settings, classes = manifest.settings, manifest.classes
    network = _network(root, manifest, tensors_in(root, manifest.network))
    kept = [
        _kept(root, manifest, kind, most, pictures, places, without)
        for kind, most in (("exemplars", settings.exemplar_places), ("held-out", settings.held_out_places))
    ]
    tensors = tensors_in(root, manifest.evidence)
    carried = {name.removeprefix("carried."): t for name, t in tensors.items() if name.startswith("carried.")}
    try:
        settings.trainer.check_carried(carried, len(classes), network.feature_size)
    except ValueError as error:
        raise DamagedModel(f"{root}: {error}") from error
    moments = Moments.carried_in(carried)
    evidence = _evidence(root, tensors, manifest, network, kept[0].memory, moments)
    return Model(
        settings=settings,
        classes=tuple(one.name for one in classes),
        learned=Learned(network, kept[0].memory, evidence, carried),
        exemplars=kept[0],
        held_out=kept[1],
        calls=manifest.calls,
        history=manifest.history,
        accuracy=manifest.accuracy,
        difference=manifest.difference,
        odds=manifest.odds,
        familiar=manifest.familiar,
        left_out=manifest.left_out,
        seen=tuple(_seen(root, file, len(classes), network.feature_size) for file in manifest.features if pictures),
    )


def _let_go(model: Model, manifest: Manifest, digests: Collection[str]) -> Model:
    """The model without these pictures, which are not there; the numbers of them that are known go too."""
    kept = list[Kept]()
    for of, lists in (
        (model.exemplars, [one.exemplars for one in manifest.classes]),
        (model.held_out, [one.held_out for one in manifest.classes]),
    ):
        stay = torch.tensor([digest not in digests for hashes in lists for digest in hashes], dtype=torch.bool)
        rows = tuple(rows[stay[rows]] for rows in of.memory.exemplars)
        kept.append(Kept.chosen(of.images, Memory(of.memory.budget, rows)))
    stay = torch.tensor([d not in digests for one in manifest.classes for d in one.exemplars], dtype=torch.bool)
    evidence, carried = model.learned.evidence, dict(model.learned.carried)
    if evidence.moments is not None and not model.seen:
        gone = evidence.exemplar_features_ED[~stay], evidence.exemplar_labels_E[~stay]
        evidence = replace(evidence, moments=evidence.moments.without(*gone))
        assert evidence.moments is not None
        carried |= evidence.moments.to_carry()
    evidence = replace(
        evidence, exemplar_features_ED=evidence.exemplar_features_ED[stay],
        exemplar_labels_E=evidence.exemplar_labels_E[stay],
    )  # fmt: skip
    learned = replace(model.learned, memory=kept[0].memory, evidence=evidence, carried=carried)
    return replace(model, learned=learned, exemplars=kept[0], held_out=kept[1])


def tensors_in(root: Path, file: TensorFile) -> dict[str, Tensor]:
    """What a file of numbers holds, checked."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = read_checked(root, file.name, file.sha256, _MOST_TENSORS, check_head)
    try:
        tensors = load(data)
    except SafetensorError as error:
        raise DamagedModel(f"{root / file.name}: not a safetensors file ({error})") from error
    if spoiled := not_finite(tensors):
        raise DamagedModel(
            f"{root / file.name}: {spoiled!r} has numbers that are NaN or infinite; restore it from a copy"
        )
    return tensors


def _network(root: Path, manifest: Manifest, weights: dict[str, Tensor]) -> Network:
    settings, classes = manifest.settings, len(manifest.classes)
    if not settings.trainer.frozen and classes_of(weights) != classes:
        raise DamagedModel(f"{root / manifest.network.name}: its layer is not one for {classes} classes")
    try:
        name = settings.experiment.recipe.network
        if (matrix := weights.get("backbone.matrix")) is not None:
            name = f"{name}+{matrix.shape[-1]}"  # random features
        network = network_from(name, settings.shape.channels, weights)
    except ValueError as error:
        raise DamagedModel(f"{root / manifest.network.name}: {error}") from error
    if (file := manifest.int8) is not None:
        graph = read_checked(root, file.name, file.sha256, MOST_ANSWER)
        try:
            check_int8_graph(graph, network, settings.shape.height, settings.shape.width)
        except ValueError as error:
            raise DamagedModel(f"{root / file.name}: {error}; restore it from a copy") from error
        network.int8 = graph
    return network


def _kept(
    root: Path, manifest: Manifest, kind: str, most: int, pictures: bool, places: Mapping[str, str] | None,
    without: Collection[str],
) -> Kept:  # fmt: skip
    shape = manifest.settings.shape
    names = [one.exemplars if kind == "exemplars" else one.held_out for one in manifest.classes]
    if sum(map(len, names)) > most:
        raise DamagedModel(f"{root}: {sum(map(len, names))} images in {kind}, expected at most {most}")
    rows = torch.arange(sum(map(len, names))).split([len(hashes) for hashes in names])
    memory = Memory(most, tuple(rows))
    if not pictures:
        return Kept(torch.empty(0, shape.channels, shape.height, shape.width, dtype=torch.uint8), memory)
    files = [f"{kind}/{one.folder}/{d}.png" for one, of in zip(manifest.classes, names, strict=True) for d in of]
    if places is not None:
        files = [places.get(Path(name).stem, name) for name in files]
    nothing = torch.zeros(shape.channels, shape.height, shape.width, dtype=torch.uint8)  # in place of what is let go

    def read(name: str) -> Tensor:
        return nothing if Path(name).stem in without else read_png(root, name, shape)

    images = list(in_threads(read, files, os.cpu_count() or 1))
    empty = torch.empty(0, shape.channels, shape.height, shape.width, dtype=torch.uint8)
    return Kept(torch.stack(images) if images else empty, memory)


def _seen(root: Path, file: TensorFile, classes: int, feature_size: int) -> Seen:
    """Images that were learned in one call, as numbers."""
    tensors = tensors_in(root, file)
    try:
        seen = Seen(**{f.name: tensors[f.name] for f in fields(Seen)})
        check_shapes(
            tensors,
            {
                "features_ND": (len(seen.labels_N), feature_size),
                "labels_N": (len(seen.labels_N),),
                "digests_N": (len(seen.labels_N), 16),
            },
        )
    except (KeyError, ValueError) as error:
        raise DamagedModel(f"{root / file.name}: {error}") from error
    kinds = (torch.float32, torch.int64, torch.uint8)
    sound = all(getattr(seen, f.name).dtype == kind for f, kind in zip(fields(Seen), kinds, strict=True))
    if not sound or (len(seen.labels_N) and not 0 <= int(seen.labels_N.min()) <= int(seen.labels_N.max()) < classes):
        raise DamagedModel(f"{root / file.name}: labels of classes that there are not, or numbers of another kind")
    return seen


def _evidence(
    root: Path,
    tensors: Mapping[str, Tensor],
    manifest: Manifest,
    network: Network,
    memory: Memory,
    moments: Moments | None,
) -> Evidence:
    """What the heads may see, of the shapes that it must have."""
    try:
        evidence = Evidence(**{name: tensors[name] for name in TENSORS}, moments=moments)
    except KeyError as error:
        raise DamagedModel(f"{root / manifest.evidence.name}: has no {error}") from error
    firsts = [one.first_state for one in manifest.classes]
    count, states = len(firsts), firsts[-1] + 1
    kept, new = len(memory), len(evidence.new_labels_M)
    width, size = network.linear.in_features, network.feature_size
    expected: dict[str, Sequence[int]] = {"C": (count,), "CD": (count, width), "S": (states,), "E": (kept,)}
    expected |= {"ED": (kept, size), "M": (new,), "MD": (new, size)}
    if moments is not None:
        expected["CD"] = (count, 0)  # a frozen network has no layer
    for name in TENSORS:
        tensor, letters = getattr(evidence, name), name.rpartition("_")[2]
        whole = name.startswith(("first_state", "train_count")) or "labels" in name
        if tuple(tensor.shape) != tuple(expected[letters]) or tensor.dtype != (torch.int64 if whole else torch.float32):
            raise DamagedModel(f"{root / manifest.evidence.name}: {name} is {tuple(tensor.shape)} of {tensor.dtype}")
    if evidence.first_state_C.tolist() != firsts or not torch.equal(evidence.exemplar_labels_E, memory.labels):
        raise DamagedModel(f"{root / manifest.evidence.name}: does not fit the manifest")
    if new and not 0 <= int(evidence.new_labels_M.min()) <= int(evidence.new_labels_M.max()) < count:
        raise DamagedModel(f"{root / manifest.evidence.name}: labels of classes that there are not")
    return evidence
