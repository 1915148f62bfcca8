"""What a disk may hold after a process was killed, or after the power was lost, worked out from what was done to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.system_calls import Operation

Tree = dict[str, bytes | None]
"""What is in a folder: the content of each file by its path; None for a folder."""


@dataclass(eq=False)
class _File:
    data: bytes = b""
    flushed: bytes = b""
    """What was in it when it was last flushed."""


@dataclass(eq=False)
class _Folder:
    names: dict[str, _File | _Folder] = field(default_factory=dict)
    flushed: dict[str, _File | _Folder] = field(default_factory=dict)
    """Its names when it was last flushed."""


class Disk:
    """A folder, how it looks to processes, and what of it is on the disk for certain.

    A file that is flushed has its content; a folder that is flushed has its names. Neither says anything of the other.
    """

    def __init__(self, folder: Path) -> None:
        self._root = _read(folder)

    def apply(self, operation: Operation) -> bool:
        """Do it here, too; what fails there changes nothing here, either. Gives whether anything changed."""
        return bool(getattr(self, f"_{operation.kind}")(operation))

    def _at(self, path: str) -> _File | _Folder | None:
        here: _File | _Folder | None = self._root
        for part in () if path == "." else path.split("/"):
            here = here.names.get(part) if isinstance(here, _Folder) else None
        return here

    def _around(self, path: str) -> tuple[_Folder | None, str]:
        head, _, name = path.rpartition("/")
        folder = self._at(head or ".")
        return (folder if isinstance(folder, _Folder) else None), name

    def _open(self, done: Operation) -> bool:
        folder, name = self._around(done.path)
        there = self._at(done.path)
        if there is None and folder is not None and done.flags & os.O_CREAT:
            folder.names[name] = _File()
            return True
        truncates = isinstance(there, _File) and bool(done.flags & os.O_TRUNC) and not done.flags & os.O_EXCL
        return truncates and _change(there, b"")

    def _write(self, done: Operation) -> bool:
        file = self._at(done.path)
        if not isinstance(file, _File):  # its name is gone, and what is written with it
            return False
        at = len(file.data) if done.offset is None else done.offset
        return _change(file, file.data[:at].ljust(at, b"\0") + done.data + file.data[at + len(done.data) :])

    def _truncate(self, done: Operation) -> bool:
        file = self._at(done.path)
        assert done.offset is not None
        return isinstance(file, _File) and _change(file, file.data[: done.offset].ljust(done.offset, b"\0"))

    def _mkdir(self, done: Operation) -> bool:
        folder, name = self._around(done.path)
        if folder is None or name in folder.names or done.path == ".":
            return False
        folder.names[name] = _Folder()
        return True

    def _unlink(self, done: Operation) -> bool:
        folder, name = self._around(done.path)
        return folder is not None and isinstance(self._at(done.path), _File) and bool(folder.names.pop(name))

    def _rmdir(self, done: Operation) -> bool:
        folder, name = self._around(done.path)
        there = self._at(done.path)
        empty = isinstance(there, _Folder) and not there.names
        return folder is not None and empty and bool(folder.names.pop(name))

    def _rename(self, done: Operation) -> bool:
        one, there = self._at(done.path), self._at(done.to)
        (old, name), (new, to) = self._around(done.path), self._around(done.to)
        if one is None or old is None or new is None or (isinstance(there, _Folder) and there.names):
            return False
        if there is not None and isinstance(there, _Folder) != isinstance(one, _Folder):
            return False
        del old.names[name]
        new.names[to] = one
        return True

    def _flush(self, done: Operation) -> bool:
        one = self._at(done.path)
        if isinstance(one, _File):
            changed, one.flushed = one.flushed != one.data, one.data
            return changed
        changed = one is not None and one.flushed != one.names
        if changed:
            assert one is not None
            one.flushed = dict(one.names)
        return changed

    def as_seen(self) -> Tree:
        """What a process sees, also one that comes after a kill."""
        return _tree(self._root, lambda folder: folder.names, lambda file: file.data)

    def after_power_loss(self) -> Iterator[tuple[str, Tree]]:
        """What may be left where the power is lost now: how it went, and what there is.

        The disk may have kept more than it was asked for, and in another order: that of its names by folder.
        """

        def kept(file: _File) -> bytes:
            return file.flushed

        def half(file: _File) -> bytes:
            return file.flushed if file.data == file.flushed else file.data[: len(file.data) // 2]

        yield "only what was flushed", _tree(self._root, lambda folder: folder.flushed, kept)
        yield "all names, flushed content", _tree(self._root, lambda folder: folder.names, kept)
        yield "all names, half the content", _tree(self._root, lambda folder: folder.names, half)
        yield "flushed names, all content", _tree(self._root, lambda folder: folder.flushed, lambda file: file.data)
        for path, changed in _unflushed(self._root, "."):

            def alone(folder: _Folder, changed: _Folder = changed) -> dict[str, _File | _Folder]:
                return folder.names if folder is changed else folder.flushed

            def without(folder: _Folder, changed: _Folder = changed) -> dict[str, _File | _Folder]:
                return folder.flushed if folder is changed else folder.names

            yield f"of names not flushed those in {path}", _tree(self._root, alone, kept)
            yield f"of names not flushed all but those in {path}", _tree(self._root, without, kept)


def _change(file: _File, data: bytes) -> bool:
    changed, file.data = file.data != data, data
    return changed


def _read(folder: Path) -> _Folder:
    """As it lies there: all of it is on the disk."""
    names = dict[str, _File | _Folder]()
    for path in folder.iterdir():
        names[path.name] = _read(path) if path.is_dir() else _File(*[path.read_bytes()] * 2)
    return _Folder(names, dict(names))


def _tree(
    root: _Folder, names: Callable[[_Folder], dict[str, _File | _Folder]], content: Callable[[_File], bytes]
) -> Tree:
    found = Tree()
    for name, one in names(root).items():
        if isinstance(one, _File):
            found[name] = content(one)
        else:
            found |= {name: None, **{f"{name}/{path}": data for path, data in _tree(one, names, content).items()}}
    return found


def _unflushed(folder: _Folder, path: str) -> Iterator[tuple[str, _Folder]]:
    """The folders whose names differ from those that were flushed."""
    if folder.names != folder.flushed:
        yield path, folder
    for name, one in folder.names.items():
        if isinstance(one, _Folder):
            yield from _unflushed(one, name if path == "." else f"{path}/{name}")


def tree_of(folder: Path) -> Tree:
    """What is in a real folder."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")
    }


def make(tree: Tree, folder: Path) -> None:
    """A real folder with this in it, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, data in tree.items():
        if data is None:
            (folder / path).mkdir(parents=True, exist_ok=True)
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
