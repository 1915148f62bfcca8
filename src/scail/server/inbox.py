"""Pictures that came in and were unknown or doubtful, until somebody says what they are. Outside the model's folder.

INBOX/ID.jpg    the picture, reduced
INBOX/ID.npy    what the network saw in it
INBOX/ID.json   when it came, and what a model said of it
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from scail.classifier.answering import Answer, read_picture
from scail.classifier.groups import alike
from scail.server.current import ServedModel
from scail.server.pictures import reduced
from scail.storage.atomic import write_bytes
from scail.storage.flushing import Flushed
from scail.storage.reading import MIB, read_bounded, read_json
from scail.storage.records import decode

IMAGE_ID = re.compile(r"[0-9a-f]{32}")
DOUBT = 0.5
"""A picture whose best class has lower odds is doubtful."""
ENDINGS = ("json", "npy", "jpg")
"""Of a picture's files; the first goes first, so that what is left is no picture any more."""
_MOST_WAITING = 64
"""Pictures that wait to be written; what comes beyond is let go."""
_MOST_PICTURE = 64 * MIB
_LATEST = 1e11  # seconds: no calendar goes farther than some thousand years


class _Description(TypedDict):
    """What stands in a description."""

    when: float
    stamp: str
    unknown: bool
    top: list[list[str | float]]


@dataclass(frozen=True)
class InboxPicture:
    """A picture in the inbox, as a model saw it."""

    id: str
    when: float
    stamp: str
    top: tuple[tuple[str, float], ...]
    unknown: bool
    features: NDArray[np.float32]


def is_doubtful(answer: Answer) -> bool:
    """Whether somebody should look at this picture."""
    return answer.unknown or float(answer.odds.max(initial=0.0)) < DOUBT


class Inbox:
    """At most so many pictures, for at most so many days."""

    def __init__(self, folder: Path, most: int, days: float) -> None:
        self.folder, self.most, self.days = folder, most, days
        self._one, self._waiting = threading.Lock(), 0
        self._writer = ThreadPoolExecutor(1, "inbox")

    def put(self, name: str, picture: NDArray[np.uint8], answer: Answer, model: ServedModel) -> None:
        """Keep a picture, soon: whoever sent it does not wait for that."""
        if self.most == 0 or self._waiting >= _MOST_WAITING:
            return
        self._waiting += 1
        self._writer.submit(self._put, name, picture, answer, model)

    def _put(self, name: str, picture: NDArray[np.uint8], answer: Answer, model: ServedModel) -> None:
        try:
            with contextlib.suppress(OSError):  # a full disk: answers go on
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not (self.folder / f"{name}.json").exists():
                    self.make_room(1)
                    write_bytes(self.folder / f"{name}.jpg", reduced(picture), Flushed.NOTHING)
                    self._describe(name, time.time(), answer, model)
        finally:
            self._waiting -= 1

    def _describe(self, name: str, when: float, answer: Answer, model: ServedModel) -> None:
        """Its description is written last: with it, it is there."""
        said = {
            "when": when, "stamp": model.stamp, "unknown": answer.unknown,
            "top": [[model.names[c], float(answer.odds[c])] for c in answer.top(3)],
        }  # fmt: skip
        features = BytesIO()
        np.save(features, answer.features.astype(np.float32))
        write_bytes(self.folder / f"{name}.npy", features.getvalue(), Flushed.NOTHING)
        write_bytes(self.folder / f"{name}.json", json.dumps(said, ensure_ascii=False).encode(), Flushed.NOTHING)

    def count(self) -> int:
        """How many pictures there are."""
        return len(self._ages())

    def make_room(self, places: int = 0) -> None:
        """Let go of what is too old, and of the oldest where there are too many."""
        with self._one:
            ages = self._ages()
            old = [name for when, name in ages if when < time.time() - self.days * 86400]
            rest = [name for _, name in ages[len(old) :]]
            self.discard([*old, *rest[: max(0, len(rest) + places - max(self.most, places))]])

    def _ages(self) -> list[tuple[float, str]]:
        """When each was described, and its name; the oldest first."""
        found = []
        for path in self.folder.glob("*.json") if self.folder.is_dir() else ():
            if IMAGE_ID.fullmatch(path.stem):
                with contextlib.suppress(OSError):
                    found.append(((path.with_suffix(".jpg")).stat().st_mtime, path.stem))
        return sorted(found)

    def discard(self, names: Iterable[str]) -> int:
        """Remove these pictures; gives how many were there."""
        gone = 0
        for name in names:
            if IMAGE_ID.fullmatch(name):
                gone += (self.folder / f"{name}.json").exists()
                for ending in ENDINGS:
                    (self.folder / f"{name}.{ending}").unlink(missing_ok=True)
        return gone

    def picture(self, name: str) -> bytes | None:
        """The JPEG of this name."""
        if not IMAGE_ID.fullmatch(name):
            return None
        try:
            return read_bounded(self.folder / f"{name}.jpg", _MOST_PICTURE)
        except (OSError, ValueError):
            return None

    def groups(self, model: ServedModel) -> list[list[InboxPicture]]:
        """Pictures that look alike, the largest group first; each as this model sees it."""
        self.make_room()
        pictures = list(self._pictures(model))
        groups = alike([one.features for one in pictures], model.answerer.apart)
        return [[pictures[row] for row in rows] for rows in groups]

    def _pictures(self, model: ServedModel) -> Iterator[InboxPicture]:
        for when, name in self._ages():
            with contextlib.suppress(OSError, ValueError):
                try:
                    yield self._described(name, model)
                except (OSError, ValueError):  # another model has said it, or it is damaged: it is asked again
                    answer = model.answerer.answer(read_picture(self.picture(name) or b""))
                    self._describe(name, when, answer, model)
                    yield self._described(name, model)

    def _described(self, name: str, model: ServedModel) -> InboxPicture:
        """What this model said of it; an error where that is not all there."""
        said: _Description = decode(_Description, read_json(self.folder / f"{name}.json", MIB), name)
        if said["stamp"] != model.stamp or not 0 <= said["when"] <= _LATEST:
            raise ValueError(f"{name}: not described by this model")
        top = tuple((decode(str, c, "class"), decode(float, odds, "odds")) for c, odds in said["top"])
        features = _row(read_bounded(self.folder / f"{name}.npy", MIB), model.answerer.feature_size)
        return InboxPicture(name, said["when"], said["stamp"], top, said["unknown"], features)

    def close(self) -> None:
        """Write what waits, and end."""
        self._writer.shutdown(wait=True)


def _row(data: bytes, size: int) -> NDArray[np.float32]:
    """So many finite numbers from what `np.save` wrote; how many there are is not taken from what the file says."""
    expected = BytesIO()
    np.save(expected, np.empty(size, np.float32))
    head = len(expected.getvalue()) - 4 * size
    if len(data) != head + 4 * size or data[:head] != expected.getvalue()[:head]:
        raise ValueError(f"not {size} numbers")
    found = np.frombuffer(data, np.float32, offset=head)
    if not np.isfinite(found).all():
        raise ValueError("numbers that are NaN or infinite")
    return found
