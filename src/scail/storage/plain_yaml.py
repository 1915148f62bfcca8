"""YAML that nobody vouches for: a short text, of so many values at most, however often it names one of them again."""

from __future__ import annotations

from functools import cache
from typing import Any

_MOST_VALUES = 20_000
_EACH = 50
"""Characters for each value, at most, on average: comments and long names."""
_DEEPEST = 50


def read_yaml(text: str, name: str, most: int = _MOST_VALUES) -> tuple[Any, Any]:
    """The nodes of a text, which know their lines, and the value that they stand for; `name` begins every error."""
    import yaml

    if len(text) > _EACH * most:
        raise ValueError(f"{name}: {len(text)} characters, expected at most {_EACH * most}")
    try:
        loader = _bounded_loader()(text)
        loader.most = most
        node = loader.get_single_node()
        _count(node, 0, most, 0)
        return node, None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        said = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ValueError(f"{name}{line}: not YAML: {said}") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:  # a date that is none, ...
        raise ValueError(f"{name}: not YAML: {error or type(error).__name__}") from None


@cache
def _bounded_loader() -> Any:
    """Plain values only, and no more of them than are taken: it ends where one too many begins."""
    import yaml

    class Bounded(yaml.SafeLoader):  # type: ignore[misc]
        values, depth, most = 0, 0, 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.values += 1
            self.depth += 1
            _check(self.values, self.most, self.depth)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Bounded


def _check(values: int, most: int, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"lists within lists, more than {_DEEPEST} deep")
    if values > most:
        raise ValueError(f"more than {most} values, an alias counted as what it stands for")


def _count(node: Any, before: int, most: int, depth: int) -> int:
    """How many values there are up to the end of this one, with each alias counted as what it stands for."""
    count = before + 1
    _check(count, most, depth)
    inner = getattr(node, "value", None)
    for one in inner if isinstance(inner, list) else ():
        for part in one if isinstance(one, tuple) else (one,):
            count = _count(part, count, most, depth + 1)
    return count
