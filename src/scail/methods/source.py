"""A file of one's own, and all that it imports beside itself: read once, told apart by its content, then loaded.

What runs is what was read: no compiled file from before is used, and nothing else beside the file can be imported.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class SourceFile:
    """One module: its name and its text. A folder without an `__init__.py` has none."""

    name: str
    path: Path
    text: bytes | None

    @property
    def is_package(self) -> bool:
        """Whether other modules are in it."""
        return self.text is None or self.path.name == "__init__.py"

    @cached_property
    def tree(self) -> ast.Module:
        """Its text, parsed; an error with its line where it is not Python."""
        try:
            return ast.parse(self.text or b"", str(self.path))
        except SyntaxError as error:
            raise ValueError(f"{self.path}, line {error.lineno}: not Python: {error.msg}") from None
        except ValueError as error:
            raise ValueError(f"{self.path}: not Python: {error}") from None


@dataclass(frozen=True)
class Source:
    """The file first, then what it imports beside itself."""

    files: tuple[SourceFile, ...]

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.files[0].path

    @property
    def paths(self) -> frozenset[str]:
        """Where all of it is."""
        return frozenset(str(file.path) for file in self.files)

    @cached_property
    def content(self) -> str:
        """Tells it apart from every other text; the place of the file makes no difference."""
        found = hashlib.sha256()
        for name, text in [("", self.files[0].text), *sorted((file.name, file.text) for file in self.files[1:])]:
            found.update(f"{name} {-1 if text is None else len(text)}\n".encode() + (text or b""))
        return found.hexdigest()[:32]


def read_source(path: Path, name: str = "") -> Source:
    """The file and, one after the other, every module beside it that it names in an import, wherever that stands.

    `name` is that of a module of an installed package: then only modules of this package belong to it.
    """
    root = path.parents[name.count(".") + (path.name == "__init__.py")] if name else path.parent
    found, waiting = dict[str, SourceFile](), [SourceFile(name, path, _text(path))]
    while waiting:
        file = waiting.pop(0)
        if file.name in found:
            continue
        found[file.name] = file
        for other in _imported(file):
            top = other.partition(".")[0]
            if top != "scail" and (not name or top == name.partition(".")[0]):
                waiting += _beside(root, other)
    return Source(tuple(found.values()))


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None


def _imported(file: SourceFile) -> Iterator[str]:
    """Every name that an import may mean a module by."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(file, node)
            yield from filter(None, [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)])


def _absolute(file: SourceFile, node: ast.ImportFrom) -> str:
    """The module that is imported from; `from . import x` counts from the file's own package."""
    if not node.level:
        return node.module or ""
    parts = file.name.split(".")
    kept = parts[: len(parts) - node.level + file.is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _beside(root: Path, name: str) -> list[SourceFile]:
    """The module of this name below `root`, with the packages that it is in; none where there is none."""
    parts, found = name.split("."), list[SourceFile]()
    for count in range(1, len(parts) + 1):
        place, inner = root.joinpath(*parts[:count]), ".".join(parts[:count])
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file():
                found.append(SourceFile(inner, path, _text(path)))
                break
        else:
            if not place.is_dir():
                break
            found.append(SourceFile(inner, place, None))
    while found and found[-1].text is None:  # a folder alone is no module: there is nothing of it to run
        found.pop()
    return found


def load_source(source: Source) -> ModuleType:
    """Carry out the file, and everything beside it that it imports: it is code, and can do what its author can."""
    main, *beside = source.files
    if main.name:  # of an installed package
        return import_module(main.name)
    _make_room(main, beside)
    name = f"own_{re.sub(r'[^a-zA-Z0-9]', '_', main.path.stem)}_{source.content[:12]}"
    loader = _Loader(SourceFile(name, main.path, main.text))
    module = module_from_spec(_spec(loader.file, loader))
    sys.modules[name] = module
    finder = _Beside(beside)
    sys.meta_path.insert(0, finder)
    try:
        with told_by_line(source.paths):
            loader.exec_module(module)
            for file in beside:  # those that a function imports later, too
                import_module(file.name)
    except BaseException:
        for loaded in (name, *(file.name for file in beside)):
            sys.modules.pop(loaded, None)
        raise
    finally:
        sys.meta_path.remove(finder)
    return module


def _make_room(main: SourceFile, beside: Sequence[SourceFile]) -> None:
    """Modules of these names that were loaded before give way to what was read now; those of others do not."""
    for file in beside:
        elsewhere = None if "." in file.name else PathFinder.find_spec(file.name)
        taken = elsewhere.origin if elsewhere is not None else None
        if file.name in sys.stdlib_module_names or (taken and Path(taken).resolve() != file.path):
            raise ValueError(
                f"{main.path}: {file.path.name} beside it has the name of another module, {file.name} "
                f"({taken or 'of Python itself'}); give it another name"
            )
        there = sys.modules.get(file.name)
        loaded_from = getattr(there, "__file__", None)
        if there is not None and loaded_from and Path(loaded_from).resolve() != file.path:
            raise ValueError(
                f"{main.path}: {file.path.name} beside it has the name of a module that is loaded already, from "
                f"{loaded_from}; give one of them another name"
            )
        sys.modules.pop(file.name, None)


class _Beside(MetaPathFinder):
    """Finds what a file imports beside itself."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.files = {file.name: file for file in files}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Where the module of this name comes from; None: it is not beside the file."""
        return _spec(self.files[fullname]) if fullname in self.files else None


class _Loader(SourceLoader):
    """Carries out the text that was read."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002
        """Where the text is from."""
        return str(self.file.path)

    def get_data(self, path: object) -> bytes:  # noqa: ARG002
        """The text."""
        return self.file.text or b""


def _spec(file: SourceFile, loader: _Loader | None = None) -> ModuleSpec:
    if file.text is None:
        spec = ModuleSpec(file.name, None, is_package=True)
        spec.submodule_search_locations = [str(file.path)]
        return spec
    inside = [str(file.path.parent)] if file.is_package else None
    found = spec_from_file_location(
        file.name, file.path, loader=loader or _Loader(file), submodule_search_locations=inside
    )
    assert found is not None
    return found


class OwnCodeError(ValueError):
    """What went wrong in code of one's own, with its line."""


@contextmanager
def told_by_line(paths: frozenset[str]) -> Iterator[None]:
    """An error in one of these files becomes one that names the line; what scail itself has to say stays as it is."""
    try:
        yield
    except Exception as error:
        told = isinstance(error, ValueError) and type(error).__module__.startswith("scail.")
        if told or not (place := _place_of(error, paths)):
            raise
        reason = str(error).strip().splitlines()
        raise OwnCodeError(f"{place}: {type(error).__name__}{f': {reason[0]}' if reason else ''}") from error


def _place_of(error: BaseException, paths: frozenset[str]) -> str | None:
    """The innermost line of these files that led to the error; None where none did, or where a rank was lost."""
    found, at = None, error.__traceback__
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if "torch/distributed/" in name.replace("\\", "/"):
            return None
        if name in paths:
            inside = at.tb_frame.f_code.co_name
            found = f"{name}, line {at.tb_lineno}" + ("" if inside == "<module>" else f", in {inside}")
        at = at.tb_next
    return found
