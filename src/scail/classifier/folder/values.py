"""Values of a manifest, each of the type that it should have: what JSON gave is not trusted."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from scail.classifier.folder.files import FolderError


class DamagedModel(FolderError):
    """The folder is not what was written."""


def list_of(value: Any) -> list[Any]:
    """The value, if it is a list."""
    found: list[Any] = checked(value, list, "a list")
    return found


def text_of(value: Any, name: str) -> str:
    """A short text that can be printed: nothing in it moves a terminal's cursor."""
    text: str = checked(value, str, name)
    if len(text) > 200 or not text.isprintable():
        raise DamagedModel(f"{name} is {text[:50]!r}, expected at most 200 printable characters")
    return text


def build(kind: type, record: Any) -> Any:
    """A frozen dataclass from a record of JSON, every value of the type that it should have."""
    given = dict(checked(record, dict, kind.__name__))
    hints = get_type_hints(kind)
    unknown = given.keys() - {f.name for f in fields(kind)}
    if unknown:
        raise FolderError(f"{kind.__name__} has {min(unknown)!r}, which this scail does not know: use a newer one")
    return kind(**{name: checked(value, hints[name], name) for name, value in given.items()})


def checked(value: Any, hint: Any, name: str) -> Any:
    """The value, if JSON could have given it for this type; tuples and dataclasses are made of what JSON has."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        for one in get_args(hint):
            try:
                return checked(value, one, name)
            except DamagedModel:
                continue
    elif origin is Literal:
        if value in get_args(hint):
            return value
    elif origin is tuple and isinstance(value, list):
        return tuple(checked(one, get_args(hint)[0], name) for one in value)
    elif is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else build(hint, value)
    elif hint is NoneType:
        if value is None:
            return value
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise DamagedModel(f"{name} is {str(value)[:50]!r}, expected {getattr(hint, '__name__', hint)}")
