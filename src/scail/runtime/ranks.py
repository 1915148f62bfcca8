"""The processes that train one network together (ranks), and how they stay of one mind.

Rank 0 decides and writes; the others are told. Every method of `Ranks` but `part` is called by all ranks, in the same
order. One process alone is a group of one: then nothing is sent, and nothing changes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")
A = TypeVarTuple("A")
_BEAT = 10.0  # seconds; while rank 0 works alone the others hear from it so often, and never run into a timeout


class RankLost(ValueError):
    """Another rank has ended, or is not heard any more."""


class RanksDiffer(ValueError):
    """Ranks do not hold the same: every one of them says so."""


class Told(ValueError):
    """An error that rank 0 reports for all."""


@dataclass(frozen=True)
class Ranks:
    """This rank among the others."""

    rank: int = 0
    count: int = 1
    group: ProcessGroup | None = None
    """For short messages, over the CPU."""

    def part(self, count: int) -> range:
        """This rank's share of 0..count-1: the shares are disjoint, in order, and differ by one at most."""
        return self.parts(count)[self.rank]

    def parts(self, count: int) -> list[range]:
        """The shares of all ranks.

        >>> Ranks(0, 3).parts(4)
        [range(0, 2), range(2, 3), range(3, 4)]
        """
        each, left_over = divmod(count, self.count)
        begins = [rank * each + min(rank, left_over) for rank in range(self.count + 1)]
        return [range(begin, end) for begin, end in pairwise(begins)]

    def any(self, flag: bool) -> bool:
        """Whether it is so on any rank."""
        if self.count == 1:
            return flag
        flags = torch.tensor([int(flag)])
        torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX, group=self.group)
        return bool(flags)

    def gathered(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        if self.count == 1:
            return [value]
        values: list[T] = [value] * self.count
        torch.distributed.all_gather_object(values, value, group=self.group)
        return values

    def total(self, value: float) -> float:
        """The sum over all ranks."""
        return sum(self.gathered(value))

    def gathered_rows(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all ranks, one below the other; `counts` says how many each one has, perhaps none."""
        if self.count == 1:
            return rows
        # Equal shapes are sent, and what was added is cut off again.
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        received = [torch.empty_like(padded) for _ in counts]
        torch.distributed.all_gather(received, padded, group=self.group)
        return torch.cat([of_rank[:count] for of_rank, count in zip(received, counts, strict=True)])

    def on_first(self, make: Callable[[*A], T], *arguments: *A) -> T | None:
        """Rank 0 makes it while the others wait, however long that takes; they get None. An error is one of all."""
        return make(*arguments) if self.count == 1 else self._lead(partial(make, *arguments), shared=False)

    def decided(self, make: Callable[[*A], T], *arguments: *A) -> T:
        """Rank 0 makes it, and all have it."""
        if self.count == 1:
            return make(*arguments)
        return cast(T, self._lead(partial(make, *arguments), shared=True))

    def _lead(self, make: Callable[[], T], shared: bool) -> T | None:
        if self.rank > 0:
            word, value = self._broadcast(None)
            while word == "working":
                word, value = self._broadcast(None)
            if word == "stop":
                raise KeyboardInterrupt
            if word == "error":
                raise Told(value)
            return cast(T | None, value)
        try:
            with self._heard():
                made = make()
        except (ValueError, OSError) as error:
            self._broadcast(("error", str(error)))
            raise
        except KeyboardInterrupt:
            self._broadcast(("stop", None))
            raise
        self._broadcast(("done", made if shared else None))
        return made

    def _broadcast(self, message: tuple[str, object] | None) -> tuple[str, object]:
        box = [message]
        torch.distributed.broadcast_object_list(box, 0, group=self.group)
        assert box[0] is not None
        return box[0]

    @contextlib.contextmanager
    def _heard(self) -> Iterator[None]:
        """Let the others know, now and then, that rank 0 is at work."""
        done = threading.Event()

        def beat() -> None:
            with contextlib.suppress(RuntimeError):  # a rank is lost: the next message says so
                while not done.wait(_BEAT):
                    self._broadcast(("working", None))

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def together(self, make: Callable[[], T]) -> T:
        """Every rank makes its own; where one of them fails, all do, and rank 0 says which."""
        if self.count == 1:
            return make()
        made, trouble = None, None
        try:
            made = make()
        except (ValueError, OSError) as error:
            trouble = error
        texts = self.gathered(None if trouble is None else str(trouble))
        if trouble is not None and self.rank == 0:
            raise trouble
        for rank, text in enumerate(texts):
            if text is not None:
                raise self.known(ValueError(f"rank {rank}: {text}"))
        return cast(T, made)

    def known(self, error: Exception) -> Exception:
        """An error that all ranks have found: rank 0 reports it, the others end with it."""
        return error if self.rank == 0 else Told(str(error))

    def check_same(self, where: str, values: Mapping[str, str]) -> None:
        """`values`, by what they are, must be equal on all ranks."""
        for what, mine in values.items():
            found = self.gathered(mine)
            if len(set(found)) > 1:
                each = ", ".join(f"rank {rank} {value[:12]}" for rank, value in enumerate(found))
                raise RanksDiffer(
                    f"{where}: {what} differ between ranks ({each}); nothing was trained with them. Every rank must "
                    "see the same data and run the same versions of everything"
                )

    def average(self, tensors: Sequence[Tensor], share: float) -> None:
        """In place, the mean over ranks, each weighted with its share of the images."""
        if self.count == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors]) * share
        torch.distributed.all_reduce(flat)  # on the device
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))


ALONE = Ranks()
"""One process."""
