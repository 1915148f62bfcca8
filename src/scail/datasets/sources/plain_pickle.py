"""Pickles of plain values and arrays of bytes, read without pickle: there is nothing in them that could be carried out.

Of pickle's machine only what the original files of CIFAR need: texts, numbers, lists, records, and numpy's way to write
down an array of bytes. Whatever else a pickle asks for is an error. It takes no more memory than the file is long.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from scail.storage.reading import why

_MOST_STEPS = 5_000_000


class NotPlain(ValueError):
    """A pickle of something else."""


class _Mark:
    """Where a list of values begins."""


@dataclass
class _Known:
    """A name that stands for one of numpy's functions; it is never called."""

    name: str


@dataclass
class _Array:
    """An array that is being put together."""

    value: np.ndarray[Any, Any] | None = None


_NAMES = {
    "numpy ndarray": "ndarray", "numpy dtype": "dtype", "_codecs encode": "encode",
    "numpy.core.multiarray _reconstruct": "reconstruct", "numpy._core.multiarray _reconstruct": "reconstruct",
}  # fmt: skip
"""What the arrays in the files are made of, under the names of old and new versions of numpy."""
_PUSH = {
    "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINUNICODE", "SHORT_BINUNICODE",
    "BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG", "BINFLOAT",
}  # fmt: skip
_VALUES: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_LIST": list, "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple, "MARK": _Mark,
}  # fmt: skip
_STRINGS = {"BINSTRING", "SHORT_BINSTRING"}
_NOTHING = {"PROTO", "FRAME"}


@dataclass
class _Machine:
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def step(self, name: str, given: Any) -> None:
        """Do what one instruction asks for."""
        if name in _PUSH:
            self.stack.append(given.encode("latin-1") if name in _STRINGS else given)
        elif name in _VALUES:
            self.stack.append(_VALUES[name]())
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            self._global(given)
        elif name.startswith("TUPLE"):
            self.stack.append(tuple(self._taken(int(name[5:])) if name[5:] else self._to_mark()))
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if given is None else given] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[given])
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            self._filled(name)
        elif name == "REDUCE":
            self.stack.append(_made(*self._taken(2)))
        elif name == "BUILD":
            array, state = self._taken(2)
            self.stack.append(_filled_array(array, state))
        elif name == "POP":
            self.stack.pop()
        elif name not in _NOTHING:
            raise NotPlain(f"asks for {name}")

    def _global(self, given: str | None) -> None:
        asked = given if given is not None else " ".join(map(str, self._taken(2)))
        if asked not in _NAMES:
            raise NotPlain(f"asks for {asked.replace(' ', '.')[:80]!r}")
        self.stack.append(_Known(_NAMES[asked]))

    def _taken(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise NotPlain("ends before it is whole")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def _to_mark(self) -> list[Any]:
        taken = list[Any]()
        while self.stack and not isinstance(self.stack[-1], _Mark):
            taken.append(self.stack.pop())
        self.stack.pop()
        return taken[::-1]

    def _filled(self, name: str) -> None:
        values = self._to_mark() if name.endswith("S") else self._taken(1 if name == "APPEND" else 2)
        holder = self.stack[-1]
        if name.startswith("APPEND") and isinstance(holder, list):
            holder.extend(values)
        elif name.startswith("SETITEM") and isinstance(holder, dict):
            if not all(isinstance(key, bytes | str) for key in values[::2]):
                raise NotPlain("names a value by something else than a text")
            holder.update(zip(values[::2], values[1::2], strict=True))
        else:
            raise NotPlain("puts values where none can be")


def _made(known: Any, given: Any) -> Any:
    """What a call of one of the names would give."""
    if not isinstance(known, _Known) or not isinstance(given, tuple):
        raise NotPlain("calls what is no function")
    if known.name == "reconstruct":
        return _Array()
    if known.name == "dtype":
        if not given or given[0] not in ("u1", b"u1"):
            raise NotPlain(f"an array of {str(given)[:40]!r}, expected bytes (u1)")
        return _Known("bytes")
    if known.name == "encode" and len(given) == 2 and isinstance(given[0], str) and given[1] in ("latin1", "latin-1"):
        return given[0].encode("latin-1")
    raise NotPlain(f"calls {known.name}")


def _filled_array(array: Any, state: Any) -> Any:
    """An array with its values; the kind of number has a state of its own, which says nothing of bytes."""
    if isinstance(array, _Known) and array.name == "bytes":
        return array
    if not isinstance(array, _Array) or not isinstance(state, tuple) or len(state) != 5:
        raise NotPlain("puts an array together in an unknown way")
    _, shape, kind, by_columns, content = state
    sound = isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)
    if not sound or kind != _Known("bytes") or not isinstance(content, bytes) or prod(shape) != len(content):
        raise NotPlain(f"an array of the shape {str(shape)[:40]} that does not fit its content")
    array.value = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")
    return array


def read_plain(content: bytes) -> dict[Any, Any]:
    """The record in a pickle. Python 2's texts are bytes, as with `encoding="bytes"`."""
    machine = _Machine()
    try:
        for number, (instruction, given, _) in enumerate(pickletools.genops(BytesIO(content))):
            if number > _MOST_STEPS:
                raise NotPlain(f"more than {_MOST_STEPS} steps")
            if instruction.name == "STOP":
                break
            machine.step(instruction.name, given)
        (value,) = machine.stack
    except NotPlain:
        raise
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise NotPlain(why(error)[:200]) from error
    if not isinstance(value, dict):
        raise NotPlain("no record")
    return {key: one.value if isinstance(one, _Array) else one for key, one in value.items()}
