"""The model that answers now, as it stands in its folder. Nothing here imports torch.

When the folder changes, whoever changed it, the new model is read beside the old one, which answers until then.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scail.classifier.answering import Answerer, NoAnswerFile, answer_file
from scail.classifier.folder.record import (
    MANIFEST,
    TENSOR_FILE,
    TRIES,
    DamagedModel,
    FolderError,
    read_checked,
    read_inside,
    read_record,
)  # fmt: skip
from scail.runtime.allocation import hand_back_freed_memory

_MOST_EVIDENCE = 4 * 2**30
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class ServedClass:
    """What the folder says of a class."""

    name: str
    state: int
    folder: str
    exemplars: tuple[str, ...]
    since: str | None
    """When it was learned first, where the history goes back so far."""
    images: int | None
    """How many were learned; None where that is not kept."""


@dataclass(frozen=True)
class ServedModel:
    """A model as it is served. Shapes: E exemplars, D features."""

    answerer: Answerer
    stamp: str
    classes: tuple[ServedClass, ...]
    exemplars: tuple[tuple[str, str], ...]
    """E: class and name of each."""
    exemplar_ED: NDArray[np.float32]
    """Their features, of unit length."""
    record: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """C: the names of the classes, also of those whose labels are whole numbers."""
        return tuple(one.name for one in self.classes)

    def nearest(self, features: NDArray[np.float32], count: int) -> list[tuple[str, str, float]]:
        """Exemplars that are most similar: class, name and cosine."""
        if not len(self.exemplar_ED) or self.exemplar_ED.shape[1] != len(features):
            return []
        similar = self.exemplar_ED @ (features / max(float(np.linalg.norm(features)), 1e-12))
        best = np.argsort(-similar, kind="stable")[:count]
        return [(*self.exemplars[row], round(float(similar[row]), 4)) for row in best]

    def class_of(self, exemplar: str) -> ServedClass | None:
        """The class that keeps this exemplar."""
        return next((one for one in self.classes if exemplar in one.exemplars), None)


class Current:
    """The newest model of a folder that could be read; `model` is None before there is one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.model: ServedModel | None = None
        self.trouble: str | None = None
        """Why the newest one cannot be read."""
        self._mark: tuple[int, ...] | None = None
        self._one = threading.Lock()

    def stale(self) -> bool:
        """Whether the folder has changed since it was read: one look at one file."""
        return self._marked() != self._mark

    def refresh(self) -> None:
        """Read the model if it has changed. Several may call at once; the model is read once."""
        with self._one:
            mark = self._marked()
            if mark == self._mark:
                return
            try:
                self.model, self.trouble = (None if mark is None else read_served(self.root)), None
            except (FolderError, OSError) as error:  # the one before goes on answering
                self.trouble = str(error)
            self._mark = mark
            hand_back_freed_memory()

    def _marked(self) -> tuple[int, ...] | None:
        try:
            found = (self.root / MANIFEST).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def read_served(root: Path) -> ServedModel:
    """What the folder holds at one moment, every file with the checksum that it should have."""
    for _ in range(TRIES):
        record, data = read_record(root)
        try:
            graph, tensors = _graph(root), _evidence(root, record)
        except (DamagedModel, FileNotFoundError):
            if read_record(root)[1] == data:
                raise
            continue
        if read_record(root)[1] == data:
            answerer = Answerer(graph, str(root), threads=1)  # pictures are spread over the cores, not each of them
            return _served(answerer, hashlib.sha256(data).hexdigest(), record, tensors)
    raise FolderError(f"{root}: changes faster than it can be read; try again")


def _graph(root: Path) -> bytes:
    try:
        return answer_file(root)[1]
    except NoAnswerFile:  # of version 0.1; it gets its file with the next lesson
        from scail.classifier.answer_graph import answer_graph
        from scail.classifier.folder import read_model

        return answer_graph(read_model(root, pictures=False)[0])


def _evidence(root: Path, record: dict[str, Any]) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    said = record.get("evidence")
    name, sha256 = (str(said.get(key)) for key in ("name", "sha256")) if isinstance(said, dict) else ("", "")
    if not TENSOR_FILE.fullmatch(name) or not name.startswith("evidence"):
        raise DamagedModel(f"{root}: {name[:80]!r}: not the name of a file of this folder")
    try:
        found: dict[str, NDArray[Any]] = load(read_checked(root, name, sha256, _MOST_EVIDENCE))
    except SafetensorError as error:
        raise DamagedModel(f"{root / name}: not a safetensors file ({error})") from error
    return found


def _served(answerer: Answerer, stamp: str, record: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> ServedModel:
    counts = tensors.get("carried.count_C")
    try:
        classes = tuple(_class(one, n, counts, record["history"]) for n, one in enumerate(record["classes"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedModel(f"manifest: {error or type(error).__name__}; restore it from a copy") from error
    if tuple(one.name for one in classes) != tuple(map(str, answerer.classes)):
        raise DamagedModel("the file that answers has other classes than the manifest; restore it from a copy")
    exemplars = tuple((one.name, digest) for one in classes for digest in one.exemplars)
    features = tensors.get("exemplar_features_ED", np.empty((0, 0), np.float32))
    if len(features) != len(exemplars):
        features, exemplars = np.empty((0, 0), np.float32), ()
    unit = features / np.linalg.norm(features, axis=1, keepdims=True).clip(1e-12) if len(features) else features
    return ServedModel(answerer, stamp, classes, exemplars, np.ascontiguousarray(unit, np.float32), record)


def _class(said: dict[str, Any], n: int, counts: NDArray[Any] | None, history: list[dict[str, Any]]) -> ServedClass:
    name, folder = str(said["name"]), str(said["folder"])
    exemplars = tuple(str(digest) for digest in said["exemplars"])
    plain = folder.replace("-", "").replace("_", "").isalnum() and folder.isascii()
    if not plain or any(len(digest) != 32 or set(digest) - _HEX for digest in exemplars):
        raise ValueError(f"class {name[:50]!r}: its folder or its exemplars have no proper names")
    since = next((str(one["when"]) for one in history if name in one["new"]), None)
    images = int(counts[n]) if counts is not None and n < len(counts) else None
    return ServedClass(name, int(said["first_state"]), folder, exemplars, since, images)


def exemplar_png(root: Path, model: ServedModel, exemplar: str) -> bytes | None:
    """The picture of this name, if the model keeps it."""
    found = model.class_of(exemplar)
    if found is None:
        return None
    try:
        return read_inside(root, f"exemplars/{found.folder}/{exemplar}.png", 64 * 2**20)
    except OSError:  # a lesson took it away just now
        return None
