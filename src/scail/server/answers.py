"""Pictures in, answers out: decoded and answered on all cores, one picture on one core at a time.

A batch is not quicker than one picture after the other: the network is busy with one. Several cores at one picture are
slower than a picture for each (docs/how-to/serve-and-deploy.md has the figures).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scail.classifier.answering import Answer
from scail.datasets.images.decode import BrokenImage
from scail.runtime.cores import available_cores
from scail.server.current import ServedModel
from scail.server.limits import Limits
from scail.server.pictures import check_picture, decoded
from scail.server.refusals import Refused

T = TypeVar("T")


@dataclass(frozen=True)
class Answered:
    """A picture and what the model says of it."""

    picture: NDArray[np.uint8]
    answer: Answer


class Answers:
    """The threads that answer, and how many pictures wait for them."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._waiting = limits, 0
        self._pool = ThreadPoolExecutor(available_cores(), "answer")

    async def to(self, model: ServedModel, pictures: Sequence[bytes]) -> list[Answered | BrokenImage]:
        """An answer to each, or why there is none."""
        return await self._each(pictures, lambda data: self._one(model, data))

    async def readable(self, pictures: Sequence[bytes]) -> list[BrokenImage | None]:
        """None for each that can be decoded, or why it cannot."""
        return await self._each(pictures, self._decode)

    async def _each(self, pictures: Sequence[bytes], act: Callable[[bytes], T]) -> list[T]:
        if self._waiting + len(pictures) > max(self._limits.waiting, len(pictures)):
            raise Refused(503, "too many pictures are waiting; try again in a moment", {"Retry-After": "1"})
        self._waiting += len(pictures)
        try:
            loop = asyncio.get_running_loop()
            return list(await asyncio.gather(*(loop.run_in_executor(self._pool, act, data) for data in pictures)))
        finally:
            self._waiting -= len(pictures)

    def _one(self, model: ServedModel, data: bytes) -> Answered | BrokenImage:
        try:
            picture = decoded(data, self._limits)
        except BrokenImage as error:
            return error
        return Answered(picture, model.answerer.answer(picture))

    def _decode(self, data: bytes) -> BrokenImage | None:
        try:
            check_picture(data, self._limits)
            decoded(data, self._limits)
        except BrokenImage as error:
            return error
        return None

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
