"""Methods of one's own: what a file or an installed package offers, checked before anything is trained with it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial, update_wrapper
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from scail.config import HeadOptions, Select
from scail.config.former import FORMER_METHODS
from scail.exemplars import Selection
from scail.methods import Method
from scail.methods.probe import check_head, check_selection
from scail.methods.source import Source, load_source, read_source, told_by_line
from scail.training import TRAINERS, Trainer

GROUP = "scail.methods"
"""The entry-point group by which an installed package offers methods."""
_EXAMPLE = 'METHODS = {"mine": scail.Method("mine", "what it does", my_head)}'
_RESERVED = ("all", "auto", *FORMER_METHODS)
_NEEDED = ("of", "train", "epochs", "settings")


@dataclass(frozen=True)
class OwnMethods:
    """What one file, or one package, offers."""

    place: str
    """The file, from the root on; or the name of the package's entry point."""
    source: Source
    methods: Mapping[str, Method]

    @property
    def content(self) -> str:
        """Tells what it does apart from every other text."""
        return self.source.content

    @property
    def trainers(self) -> Mapping[str, type[Trainer]]:
        """Its trainers by name."""
        return {one.trainer_name: one.kind for one in self.methods.values() if not isinstance(one.trainer, str)}

    @property
    def selections(self) -> Mapping[str, Selection]:
        """Its selections by name."""
        own = ((one.select_name, one.select) for one in self.methods.values())
        return {str(name): select for name, select in own if select is not None and not isinstance(select, str)}

    def place_of(self, name: str) -> str:
        """Where its table has this method: the file, and the line."""
        return _place_in_table(self.source, name)


def offered() -> dict[str, EntryPoint]:
    """What installed packages offer, by name: nothing of it is loaded."""
    return {one.name: one for one in entry_points(group=GROUP)}


def own_methods(place: str) -> OwnMethods:
    """The methods of a Python file, or those that an installed package offers under this name.

    The file is carried out. It is read anew each time, and loaded again where it has changed.
    """
    path = Path(place)
    if place.startswith(("http://", "https://")):
        raise ValueError(f"own methods {place}: code is not fetched; download the file, read it, and give its path")
    if path.suffix == ".py" or path.is_file():
        if not path.is_file():
            raise ValueError(f"own methods {place}: no such file")
        if path.suffix != ".py":
            raise ValueError(f"own methods {place}: expected a Python file, as my_method.py")
        return _from_file(str(path.resolve()), read_source(path.resolve()))
    if place not in offered():
        known = f"installed packages offer {', '.join(offered())}" if offered() else "no installed package offers one"
        raise ValueError(
            f"own methods {place}: expected a Python file, as my_method.py, or the name of a package's; {known}"
        )
    return _from_package(place)


@lru_cache(maxsize=32)
def _from_file(place: str, source: Source) -> OwnMethods:
    return _checked(place, source, load_source(source))


@lru_cache(maxsize=32)
def _from_package(name: str) -> OwnMethods:
    point = offered()[name]
    try:
        spec = find_spec(point.module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ValueError(f"own methods {name}: the package offers {point.value}, and there is no such Python module")
    source = read_source(Path(spec.origin).resolve(), point.module)
    with told_by_line(source.paths):
        return _checked(name, source, load_source(source), point.attr or "METHODS")


def _checked(place: str, source: Source, module: ModuleType, attribute: str = "METHODS") -> OwnMethods:
    """What the module offers; an error with its line where that is no table of methods, or one cannot work."""
    table = getattr(module, attribute, None)
    if table is None:
        raise ValueError(f"{source.path}: has no {attribute}; expected {_EXAMPLE}")
    if not isinstance(table, Mapping) or not table:
        line = _line_of_table(source)
        raise ValueError(f"{source.path}{line}: {attribute} is {table!r:.60}; expected {_EXAMPLE}")
    found = {}
    for name, method in table.items():
        where = _place_in_table(source, name)
        _check_entry(where, name, method)
        _check_trainer(where, method)
        guarded = _guarded(source, method)
        check_selection(_place_of(method.select, where), guarded.select)
        check_head(_place_of(method.head, where), guarded)
        found[name] = guarded
    made = OwnMethods(place, source, found)
    _check_names(made)
    return made


def _check_entry(where: str, name: object, method: object) -> None:
    """A name that can stand in commands and files, and a `Method` whose values are of their kinds."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name) or name in _RESERVED:
        raise ValueError(
            f"{where}: {name!r} is no name for a method; expected a letter, then letters, numbers, _ . or -, and none "
            f"of {', '.join(_RESERVED)}"
        )
    if not isinstance(method, Method):
        raise ValueError(f"{where}: {name!r} is {type(method).__name__}; expected scail.Method(label, summary, head)")
    for what, text in (("label", method.label), ("summary", method.summary)):
        if not isinstance(text, str) or not text or "\n" in text:
            raise ValueError(f"{where}: the {what} of {name!r} is {text!r}; expected one line of text")
    if not callable(method.head):
        raise ValueError(f"{where}: the head of {name!r} is {method.head!r:.60}; expected a function of the evidence")
    known = [field.name for field in fields(HeadOptions)]
    if unknown := sorted(set(method.options) - set(known)):
        raise ValueError(f"{where}: {name!r} has option {unknown[0]!r}; known: {', '.join(known)}")
    if method.select is not None and not callable(method.select) and method.select not in get_args(Select):
        raise ValueError(
            f"{where}: {name!r} selects {method.select!r}; expected {', '.join(get_args(Select))}, or a function of "
            "features and count"
        )


def _check_trainer(where: str, method: Method) -> None:
    """A name of `TRAINERS`, or a class that declares and does what a trainer has to."""
    kind = method.trainer
    if isinstance(kind, str):
        if kind not in TRAINERS:
            known = ", ".join(TRAINERS)
            raise ValueError(f"{where}: no trainer {kind!r}; known: {known}; or a class of your own")
        return
    if not isinstance(kind, type) or Trainer not in kind.__mro__:
        raise ValueError(f"{where}: the trainer is {kind!r:.60}; expected a class that inherits scail.training.Trainer")
    at = _place_of(kind, where)
    if missing := [name for name in ("title", "schedules") if not hasattr(kind, name)]:
        raise ValueError(f"{at}: trainer {kind.__name__} has no {missing[0]}; see docs/how-to/own-method.md")
    if missing := [name for name in _NEEDED if _plain(kind, name) is _plain(Trainer, name)]:
        raise ValueError(f"{at}: trainer {kind.__name__} has no function {missing[0]}; it needs {', '.join(_NEEDED)}")
    if method.trainer_name in TRAINERS:
        raise ValueError(f"{at}: scail has a trainer {method.trainer_name} already; give the class another name")


def _plain(kind: type, name: str) -> object:
    """The function of this name, whatever class it is bound to."""
    found = getattr(kind, name)
    return getattr(found, "__func__", found)


def _check_names(made: OwnMethods) -> None:
    """Two trainers, or two selections, of one file have two names."""
    for what, named in (
        ("trainers", [(one.trainer_name, one.trainer) for one in made.methods.values()]),
        ("selections", [(one.select_name, one.select) for one in made.methods.values()]),
    ):
        own: dict[object, object] = {}
        for name, thing in named:
            if callable(thing) and own.setdefault(name, thing) is not thing:
                raise ValueError(f"{made.source.path}: two {what} have the name {name}; give one another name")
        if what == "selections" and (taken := [name for name in own if name in get_args(Select)]):
            raise ValueError(f"{made.source.path}: scail has a selection {taken[0]} already; choose another name")


def _guarded(source: Source, method: Method) -> Method:
    """The method with a head and a selection whose errors name their line; the paper does not have it."""
    head = partial(_told, source.paths, method.head)
    update_wrapper(head, method.head)
    changed: dict[str, Any] = {"head": head, "in_paper": False}
    if callable(method.select):
        changed["select"] = update_wrapper(partial(_told, source.paths, method.select), method.select)
    return replace(method, **changed)


def _told(paths: frozenset[str], function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    with told_by_line(paths):
        return function(*given, **named)


def _place_of(thing: Any, otherwise: str) -> str:
    """The file and the line of a function or class; `otherwise` where it has none."""
    while isinstance(thing, partial):
        thing = thing.func
    try:
        path, line = inspect.getsourcefile(thing), inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return otherwise
    return f"{path}, line {line}"


def _place_in_table(source: Source, name: object) -> str:
    """The file, and the line of the table that has this name."""
    tree = source.files[0].tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and key.value == name:
                    return f"{source.path}, line {key.lineno}"
    return f"{source.path}{_line_of_table(source)}"


def _line_of_table(source: Source) -> str:
    """The line that makes the table, as part of a text; empty where it cannot be told."""
    for node in ast.walk(source.files[0].tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "METHODS" for target in targets):
            return f", line {getattr(node, 'lineno', 1)}"
    return ""
