"""Write a classifier into its folder: new files, then the manifest in one step, then what is no longer needed goes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from torch import Tensor

from scail.classifier.answer_graph import answer_graph
from scail.classifier.answering import answer_file
from scail.classifier.folder.card import CARD, card_of, may_write_card
from scail.classifier.folder.files import class_folder, clear_errors, prepare
from scail.classifier.folder.manifest import ClassRecord, Manifest, TensorFile, to_bytes
from scail.classifier.folder.origin import read_origin
from scail.classifier.folder.pictures import read_png, to_png
from scail.classifier.folder.record import MANIFEST, PICTURES, FolderError
from scail.classifier.folder.sweeping import sweep
from scail.classifier.inputs import NumberLabel
from scail.classifier.model import Kept, Model, Seen, digests_of
from scail.classifier.settings import Change
from scail.classifier.undoing import Before
from scail.datasets.images.on_disk import in_threads
from scail.heads.evidence import TENSORS
from scail.storage.atomic import told, write_bytes
from scail.storage.entry import not_finite
from scail.storage.flushing import Flushed, flush


def write_model(
    root: Path, model: Model, change: Change = "save", before: Before | None = None, was_read: bool = False
) -> str:
    """Put this model in place of what was there; gives its stamp. Hold the lock meanwhile.

    `change`: what was done to it; `before`: what it was before that, so that it can be taken back. `was_read`: the
    pictures that are there were read under this lock; others are looked at, and written again where they are not whole.
    """
    root = Path(root)
    _check_numbers(root, model)
    with clear_errors(root):
        prepare(root)
        written = dict[int, TensorFile]()
        with ThreadPoolExecutor(1) as aside:
            writing = aside.submit(
                lambda: [_write_pictures(root, kind, model, kept, was_read) for kind, kept in _kinds(model)]
            )
            answer = _write_answer(root, model)
            manifest = _write_numbers(root, model, writing.result, written)
        lesson = model.lesson if change == "learn" else ""
        manifest = replace(manifest, answer=answer, change=change, lesson=lesson)
        if before is not None:
            hashes = [_hashes(kept) for _, kept in _kinds(before.model)]
            former = _write_numbers(root, before.model, lambda: hashes, written)
            manifest = replace(manifest, before=former, gone=before.gone)
        data = to_bytes(manifest)
        flush(root)
        write_bytes(root / MANIFEST, data, Flushed.CONTENT)  # from here on it is the new model
    try:
        flush(root)
    except OSError as error:
        raise FolderError(
            f"{root}: the new model is in place, but may not outlast a power failure: {told(error)}"
        ) from error
    stamp = hashlib.sha256(data).hexdigest()
    with contextlib.suppress(OSError):  # the model is as it should be; a card that is not goes with what is left over
        write_card(root, manifest, stamp)
    try:
        sweep(root)
    except OSError as error:
        if change == "forget":  # of other changes, whoever comes next takes away what is left over
            raise FolderError(
                f"{root}: the new model is in place, but files that it no longer needs could not be removed: "
                f"{told(error)}"
            ) from error
    return stamp


def write_card(root: Path, manifest: Manifest, stamp: str) -> None:
    """The card of the model that is there, unless somebody's own file is in its place."""
    if may_write_card(root):
        size = sum((root / name).lstat().st_size for name in (MANIFEST, *manifest.files()))
        origin = read_origin(root)
        write_bytes(root / CARD, card_of(manifest, stamp, size, origin.place if origin else "hf:OWNER/NAME"))


def _check_numbers(root: Path, model: Model) -> None:
    """A training can diverge with its very last batch: its loss was still a number."""
    of = {"network": model.learned.network.state_dict(), "evidence": _evidence_of(model)}
    for kind, tensors in (*of.items(), *(("features", _tensors_of(seen)) for seen in model.seen)):
        if spoiled := not_finite(tensors):
            raise FolderError(
                f"{root}: the new model is not written: {spoiled!r} of its {kind} has numbers that are NaN or "
                "infinite. The model that was there is as it was. Try a lower learning rate"
            )


def _evidence_of(model: Model) -> dict[str, Tensor]:
    tensors = {name: getattr(model.learned.evidence, name) for name in TENSORS}
    return tensors | {f"carried.{name}": tensor for name, tensor in model.learned.carried.items()}


def _write_numbers(
    root: Path, model: Model, pictures: Callable[[], list[list[list[str]]]], written: dict[int, TensorFile]
) -> Manifest:
    """All but pictures and the file that answers. `written`: files of the same tensors, by their ids."""
    learned = model.learned

    def once(kind: str, of: object, values: Callable[[], dict[str, Tensor]]) -> TensorFile:
        if id(of) not in written:
            written[id(of)] = _write_tensors(root, kind, values())
        return written[id(of)]

    network = once("network", learned.network, learned.network.state_dict)
    evidence = _write_tensors(root, "evidence", _evidence_of(model))
    graph = learned.network.int8
    features = tuple(once("features", seen, partial(_tensors_of, seen)) for seen in model.seen)
    return Manifest(
        settings=model.settings,
        classes=tuple(
            ClassRecord(name, int(first), tuple(exemplars), tuple(held_out), isinstance(name, NumberLabel))
            for name, first, exemplars, held_out in zip(
                model.classes, learned.evidence.first_state_C, *pictures(), strict=True
            )
        ),
        network=network,
        evidence=evidence,
        int8=None if graph is None else _write_named(root, "int8", "onnx", graph),
        calls=model.calls,
        history=model.history,
        accuracy=model.accuracy,
        difference=model.difference,
        changed=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        scail=version("scail"),
        features=features,
        odds=model.odds,
        familiar=model.familiar,
        left_out=model.left_out,
    )


def _kinds(model: Model) -> list[tuple[str, Kept]]:
    return list(zip(PICTURES, (model.exemplars, model.held_out), strict=True))


def _write_tensors(root: Path, kind: str, tensors: dict[str, Tensor]) -> TensorFile:
    from safetensors.torch import save

    # Copies: in the first state the layer and the initial classifiers are one tensor, which safetensors refuses.
    data = save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()})
    return _write_named(root, kind, "safetensors", data)


def _write_answer(root: Path, model: Model) -> TensorFile:
    former = None
    if (root / MANIFEST).exists():
        with contextlib.suppress(FolderError):  # damaged, or of version 0.1: all of it is made anew
            former = answer_file(root)[1]
    return _write_named(root, "answer", "onnx", answer_graph(model, former))


def _write_named(root: Path, kind: str, ending: str, data: bytes) -> TensorFile:
    digest = hashlib.sha256(data).hexdigest()
    name = f"{kind}-{digest[:32]}.{ending}"
    if not _holds(root / name, data):
        write_bytes(root / name, data, Flushed.CONTENT)
    return TensorFile(name, digest)


def _holds(path: Path, data: bytes) -> bool:
    """Whether this is in the file: its name says so, but somebody may have emptied or changed it."""
    with contextlib.suppress(OSError):
        return path.stat().st_size == len(data) and path.read_bytes() == data
    return False


def _tensors_of(seen: Seen) -> dict[str, Tensor]:
    return {f.name: getattr(seen, f.name) for f in fields(Seen)}


def _hashes(kept: Kept) -> list[list[str]]:
    """Of the pictures of each class."""
    digests = iter(digests_of([kept.images[row] for row in kept.memory.indices.tolist()]))
    return [[next(digests).hex() for _ in rows] for rows in kept.memory.exemplars]


def _write_pictures(root: Path, kind: str, model: Model, kept: Kept, was_read: bool) -> list[list[str]]:
    """For each class the hashes of its pictures. One that is there already is left: its name is its content."""
    found, missing = _hashes(kept), dict[Path, int]()
    for name, hashes, rows in zip(model.classes, found, kept.memory.exemplars, strict=True):
        folder = root / kind / class_folder(name)
        missing |= {folder / f"{digest}.png": row for digest, row in zip(hashes, rows.tolist(), strict=True)}

    def is_there(path: Path) -> bool:
        return path.exists() and (was_read or _is_whole(root, path, model))

    there = in_threads(is_there, [*missing], os.cpu_count() or 1)
    missing = {path: row for (path, row), known in zip([*missing.items()], there, strict=True) if not known}
    folders = {path.parent for path in missing}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)

    def write(path: Path) -> None:
        write_bytes(path, to_png(kept.images[missing[path]]), Flushed.NOTHING)

    for _ in in_threads(write, [*missing], os.cpu_count() or 1):
        pass
    # All are written before the first is flushed: the system then does most of it at once.
    for path in [*missing, *folders, *{folder.parent for folder in folders}]:
        flush(path)
    return found


def _is_whole(root: Path, path: Path, model: Model) -> bool:
    try:
        read_png(root, path.relative_to(root).as_posix(), model.settings.shape)
    except (FolderError, OSError):
        return False
    return True
