"""Answers from a model's ONNX file, by onnxruntime. Nothing here imports torch: one picture is answered in a moment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scail.classifier.folder.record import TENSOR_FILE, TRIES, DamagedModel, FolderError, read_checked, read_record
from scail.datasets.images.decode import BROKEN, BrokenImage, open_turned
from scail.runtime.onnx_session import onnx_session
from scail.storage.reading import parsed, read_bounded, why
from scail.storage.records import decode

ANSWER_FORMAT = "1"
"""Of the ONNX file: what goes in, what comes out, what its metadata say."""
MOST_ANSWER = 2 * 2**30
"""Bytes; no ONNX file is larger."""


class NoAnswerFile(FolderError):
    """A model of version 0.1: it has no file that answers yet."""


@dataclass(frozen=True)
class Answer:
    """What a model says of one picture. Shapes: C classes."""

    scores: NDArray[np.float32]
    """C; -inf for a class that cannot be predicted for this picture."""
    odds: NDArray[np.float32]
    """C; their sum is 1."""
    strangeness: float
    """How far the picture is from everything that was learned; 0 where that cannot be told."""
    unknown: bool
    """Whether that is too far."""
    features: NDArray[np.float32]
    """What the network sees in it."""

    def top(self, k: int) -> list[int]:
        """The k best classes, best first; fewer where fewer can be predicted."""
        best = np.argsort(-self.scores, kind="stable")[:k]
        return [int(c) for c in best if self.scores[c] > -math.inf]


class Answerer:
    """Answers with what stands in an ONNX file, as `scail learn` and `scail export` write it."""

    def __init__(self, graph: bytes, name: str = "the graph", threads: int = 0) -> None:
        """The graph as bytes; `name` is for messages. threads: 0 is as many as there are cores."""
        try:
            self._session = onnx_session(graph, threads)
            told = self._session.get_modelmeta().custom_metadata_map
        except Exception as error:  # onnxruntime has a dozen kinds of its own
            raise DamagedModel(f"{name}: onnxruntime cannot read it ({str(error)[:200]})") from error
        self._name, damaged = name, DamagedModel(f"{name}: what it says of itself is not as scail writes it")
        if told.get("scail format") != ANSWER_FORMAT:
            raise FolderError(
                f"{name}: not an ONNX file that answers, or one of another scail; make it with scail learn or export"
            )
        try:
            self.classes = tuple(decode(list[str | int], parsed(told["classes"]), "classes"))
            self.method: str = told["method"]
            self.strange = float(told["unknown"]) if told["unknown"] else None
            """A picture that is stranger than this is unknown; None: nothing is."""
            self.apart = float(told["apart"])
        except (KeyError, ValueError):
            raise damaged from None
        """1 - cosine of features: pictures of two kinds are farther apart than this, on average."""

    @property
    def feature_size(self) -> int:
        """How many numbers the network gives for a picture; 0 where the graph does not say."""
        (size,) = next((one.shape for one in self._session.get_outputs() if one.name == "features"), (0,))
        return size if isinstance(size, int) else 0

    @classmethod
    def open(cls, place: str | Path, threads: int = 0) -> Self:
        """From a model's folder, or from an ONNX file."""
        place = Path(place)
        if place.is_file():
            return cls(read_bounded(place, MOST_ANSWER), str(place), threads)
        name, graph = answer_file(place)
        return cls(graph, str(place / name), threads)

    def answer(self, picture: NDArray[np.uint8]) -> Answer:
        """Of one picture, height x width x 3 (red, green, blue), of any size."""
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
            raise ValueError(
                f"picture of {picture.dtype}, {picture.shape}: expected uint8, height x width x 3 (red, green, blue)"
            )
        wanted = ["scores", "odds", "strangeness", "features"]
        try:
            scores, odds, strange, features = self._session.run(wanted, {"picture": np.ascontiguousarray(picture)})
            strangeness = float(strange)
        except Exception as error:  # onnxruntime has a dozen kinds of its own
            raise DamagedModel(f"{self._name}: onnxruntime cannot run it ({why(error)[:200]})") from error
        if not scores.shape == odds.shape == (len(self.classes),):
            raise DamagedModel(f"{self._name}: answers {scores.shape} for {len(self.classes)} classes")
        if not np.isfinite(odds).all():
            raise DamagedModel(f"{self._name}: its odds are NaN or infinite; restore it from a copy")
        unknown = self.strange is not None and strangeness > self.strange
        return Answer(scores, odds, strangeness, unknown, features)


def answer_file(root: Path) -> tuple[str, bytes]:
    """Name and content of a folder's file that answers, checked; a learn may end meanwhile."""
    for _ in range(TRIES):
        record, data = read_record(root)
        said = record.get("answer")
        if not said:
            raise NoAnswerFile(f"{root}: a model of an older scail, without a file that answers")
        name, sha256 = (str(said.get(key)) for key in ("name", "sha256")) if isinstance(said, dict) else ("", "")
        if not TENSOR_FILE.fullmatch(name) or not name.startswith("answer"):
            raise DamagedModel(f"{root}: {name[:80]!r}: not the name of a file of this folder")
        try:
            return name, read_checked(root, name, sha256, MOST_ANSWER)
        except FileNotFoundError as error:
            if read_record(root)[1] == data:
                raise DamagedModel(f"{root / name}: is missing; restore it from a copy") from error
        except OSError as error:
            raise DamagedModel(f"{root / name}: {error.strerror or error}") from error
    raise FolderError(f"{root}: changes faster than it can be read; try again")


def read_picture(file: str | Path | bytes) -> NDArray[np.uint8]:
    """height x width x 3: the whole picture of a file, or of what is in one, turned as its camera says."""
    if not isinstance(file, bytes) and not Path(file).is_file():
        raise BrokenImage(f"{file}: no such image")
    try:
        return np.asarray(open_turned(BytesIO(file) if isinstance(file, bytes) else Path(file)))
    except BROKEN as error:
        name = "an image in a table" if isinstance(file, bytes) else file
        raise BrokenImage(f"{name}: cannot be read as an image ({why(error)})") from error
