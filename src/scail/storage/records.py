"""What JSON and YAML give, as the types that were asked for: no file is trusted."""

from __future__ import annotations

import math
import reprlib
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a path"}
_NAMES |= {list: "a list", tuple: "a list", dict: "a record"}
_shown = reprlib.Repr()
_shown.maxstring = 60


class UnknownKey(ValueError):
    """A record has a key that its type does not have."""


class _Unfit(Exception):
    """The value is not of this type."""


def decode(kind: Any, value: Any, name: str, lenient: bool = False) -> Any:
    """The value, if it is of this type; else a ValueError with its name, the value, and what was expected.

    Dataclasses are made of records, tuples of lists. Of several types the first that fits is taken. What a record has
    beyond its TypedDict stays as it is.
    `lenient`: 10 may stand for "10", as people write it in YAML; true stands for no number anywhere.

    >>> decode(float, 3, "rate"), decode(tuple[int, ...] | None, [5, 5], "sizes"), decode(str, 10, "Z", lenient=True)
    (3.0, (5, 5), '10')
    """
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for one in kinds:
        try:
            return _decode(one, value, name, lenient)
        except _Unfit:
            continue
    expected = " or ".join(_name_of(one) for one in kinds if one is not NoneType)
    raise ValueError(f"{name}: {_shown.repr(value)}: expected {expected}")


def _decode(kind: Any, value: Any, name: str, lenient: bool) -> Any:
    origin = get_origin(kind)
    if origin is Literal:
        fits = value in get_args(kind)
    elif origin in (list, tuple) and isinstance(value, list):
        return origin(decode(get_args(kind)[0], one, name, lenient) for one in value)
    elif origin is dict and isinstance(value, dict):
        return {key: decode(get_args(kind)[1], one, f"{name}.{str(key)[:40]}", lenient) for key, one in value.items()}
    elif is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _build(kind, value, name, lenient)
    elif is_typeddict(kind):
        return _complete(kind, value, name, lenient)
    elif kind is Any:
        return value
    elif isinstance(value, bool):
        fits = kind is bool
    elif kind is float and isinstance(value, int | float):
        return _float(value)
    elif kind is str and lenient and isinstance(value, int | float):
        return str(value)
    elif kind is Path and isinstance(value, str):
        return Path(value)
    else:
        fits = isinstance(kind, type) and isinstance(value, kind)
    if not fits:
        raise _Unfit
    return value


def _float(value: float) -> float:
    try:
        found = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        raise _Unfit from None
    if not math.isfinite(found):
        raise _Unfit
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _complete(kind: Any, record: Any, name: str, lenient: bool) -> dict[Any, Any]:
    if not isinstance(record, dict):
        raise _Unfit
    hints = _hints(kind)
    if missing := [key for key in hints if key in kind.__required_keys__ and key not in record]:
        raise ValueError(f"{name}: has no {missing[0]}")
    known = {key: decode(hints[key], record[key], f"{name}.{key}", lenient) for key in hints if key in record}
    return {**record, **known}


def _build(kind: type, record: dict[Any, Any], name: str, lenient: bool) -> Any:
    known, hints = {field.name: field for field in fields(kind)}, _hints(kind)
    if unknown := sorted(map(str, record.keys() - known.keys())):
        raise UnknownKey(f"{name}: unknown key {_shown.repr(unknown[0])}")
    needed = [f.name for f in known.values() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [key for key in needed if key not in record]:
        raise ValueError(f"{name}: has no {missing[0]}")
    return kind(**{key: decode(hints[key], value, f"{name}.{key}", lenient) for key, value in record.items()})


def _name_of(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return _NAMES.get(get_origin(kind) or kind, "a record")
