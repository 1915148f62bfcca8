"""What a reader of a folder needs first: the manifest as JSON, and files by their names. No torch is imported."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

MANIFEST = "manifest.json"
TENSOR_FILE = re.compile(r"(network|evidence|features)-[0-9a-f]{32}\.safetensors|(answer|int8)-[0-9a-f]{32}\.onnx")
LOCK = "learn.lock"
UNFINISHED = "unfinished"
UNFINISHED_FILE = re.compile(r"[0-9a-f]{32}\.(.+\.)?safetensors|\.(scail-)?[0-9a-f]{32}\..+", re.DOTALL)
"""A checkpoint, or half of one; version 0.1 wrote to .KEY.NUMBER."""
PICTURES = ("exemplars", "held-out")
PICTURE_FILE = re.compile(r"[0-9a-f]{32}\.png")
CLASS_FOLDER = re.compile(r"[A-Za-z0-9_-]{0,40}-[0-9a-f]{12}")
FORMAT = 2
FORMAT_KEY = "scail model, format"
TRIES = 20
"""A reader that meets so many changes of the folder in a row gives up."""
_READ = (1, 2)  # formats that this scail reads; 1 is that of version 0.1
_MOST_BYTES = 256 * 2**20
_LARGE = 64 * 2**20


class FolderError(ValueError):
    """The folder cannot be used: what is wrong, and what to do."""


class DamagedModel(FolderError):
    """The folder is not what was written."""


def read_record(root: Path) -> tuple[dict[str, Any], bytes]:
    """The manifest, of a format that this scail reads and with the checksum that it names, and its bytes."""
    try:
        data = read_inside(root, MANIFEST, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        begun = (root / "unfinished").is_dir()
        raise FolderError(
            f"{root}: there is no model here"
            + ("; a first learn was begun and not finished" if begun else "; make one with scail learn")
        ) from None
    except OSError as error:
        raise DamagedModel(f"{root / MANIFEST}: {error.strerror or error}") from error
    try:
        return _checked(json.loads(data)), data
    except FolderError as error:
        raise type(error)(f"{root / MANIFEST}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedModel(f"{root / MANIFEST}: {error or type(error).__name__}; restore it from a copy") from error


def _checked(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict) or FORMAT_KEY not in record:
        raise DamagedModel("not the manifest of a scail model")
    if record[FORMAT_KEY] not in _READ:
        raise FolderError(
            f"a model of format {record[FORMAT_KEY]!r}, this scail reads format {FORMAT}: use the scail that wrote it"
        )
    if record.get("sha256") != digest_of_record(record):
        raise DamagedModel("its checksum does not match; restore it from a copy")
    return record


def digest_of_record(record: Mapping[str, Any]) -> str:
    """The checksum that a manifest carries of all else in it."""
    rest = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_inside(root: Path, name: str, most: int, look: Callable[[BinaryIO, int], None] | None = None) -> bytes:
    """A file of the folder, of at most so many bytes. A symbolic link anywhere on the way is refused.

    `look` may raise when it has seen the open file and its size; it leaves it at its beginning.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in name.split("/")[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        file = os.open(name.rpartition("/")[2], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise FolderError(f"{root / name}: a symbolic link or a file on the way; none is followed") from None
        error.filename = name  # the whole way to it
        raise
    finally:
        os.close(descriptor)
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise FolderError(f"{root / name}: {status.st_size} bytes, expected a plain file of at most {most}")
        if look is not None:
            look(opened, status.st_size)
        return opened.read(status.st_size + 1)  # not `most`: so much would be set aside


def read_checked(
    root: Path, name: str, sha256: str, most: int, head: Callable[[BinaryIO, int], None] | None = None
) -> bytes:
    """A file of the folder, with this checksum. A large one that has another is never held in memory.

    `head` raises ValueError where the file's beginning does not fit its size.
    """
    wrong = DamagedModel(f"{root / name}: checksum does not match; restore it from a copy")

    def look(file: BinaryIO, size: int) -> None:
        try:
            if head is not None:
                head(file, size)
        except ValueError as error:
            raise DamagedModel(f"{root / name}: {error}; restore it from a copy") from None
        if size > _LARGE:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:  # type: ignore[arg-type]
                raise wrong
            file.seek(0)

    data = read_inside(root, name, most, look)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise wrong
    return data
