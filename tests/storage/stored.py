"""Small entries, and a process that may not write what its rights forbid, even where the tests run as root."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch

from scail.storage.entry import Entry

_CAPABILITIES = 0x20080522  # version 3 of the system call


def entry(value: float = 1.0, size: int = 10, name: str = "k") -> Entry:
    """Of one name all have one key, whatever is in them."""
    return Entry({"a": torch.full((size,), value)}, {"made_from": {"previous": "", "name": name}, "value": value})


def key(name: str = "k") -> str:
    return entry(name=name).key


def without_privileges() -> None:
    """From here on this process is held to the rights of files, as a user is."""
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")


def read_only(folder: Path) -> None:
    """Nothing below it can be changed, made or removed."""
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)


def writable(folder: Path) -> None:
    """Again as it was."""
    for here, folders, files in os.walk(folder):
        for name in (".", *folders):
            (Path(here) / name).chmod(0o755)
        for name in files:
            (Path(here) / name).chmod(0o644)
