"""Archives of folders: looked through before they are unpacked, and never unpacked into files of their names."""

from __future__ import annotations

import stat
import zipfile
from io import BytesIO
from pathlib import PurePosixPath

from scail.server.limits import MIB, Limits
from scail.server.refusals import Refused

_ENTRY = b"PK\x01\x02"
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of others a few bytes can hold gigabytes, and all of it comes out at once."""


def pictures_in(data: bytes, limits: Limits) -> list[tuple[str, str, bytes]]:
    """Class, name and content of each picture in a ZIP file: its class is the folder that it is in."""
    if data.count(_ENTRY) > 2 * limits.taught:  # each entry takes memory before any of them can be looked at
        raise Refused(413, f"archive: more than {limits.taught} files; send it in parts")
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            wanted = [(one, path) for one in archive.infolist() if (path := _path_of(one)) is not None]
            _check([one for one, _ in wanted], limits)
            return [(path.parent.name, str(path), _content(archive, one)) for one, path in wanted]
    except Refused:
        raise
    except Exception as error:  # zipfile raises a dozen kinds
        raise Refused(422, f"archive: cannot be read as a ZIP file ({str(error)[:100]})") from error


def _path_of(one: zipfile.ZipInfo) -> PurePosixPath | None:
    """Where a file stands in the archive; None for folders and for what systems leave beside pictures."""
    path = PurePosixPath(one.filename)
    if one.filename.startswith(("/", "\\")) or "\\" in one.filename or ".." in path.parts or ":" in one.filename[:3]:
        raise Refused(422, f"archive: {one.filename[:80]!r} leads out of it; nothing was unpacked")
    if stat.S_ISLNK(one.external_attr >> 16):
        raise Refused(422, f"archive: {one.filename[:80]!r} is a link; nothing was unpacked")
    if one.is_dir() or path.parts[0] == "__MACOSX" or path.name.startswith(".") or path.name == "Thumbs.db":
        return None
    if len(path.parts) < 2:
        raise Refused(422, f"archive: {one.filename[:80]!r} is in no folder; a picture's folder is its class")
    return path


def _check(files: list[zipfile.ZipInfo], limits: Limits) -> None:
    if not files:
        raise Refused(422, "archive: holds no files; expected a folder of pictures for each class")
    if len(files) > limits.taught:
        raise Refused(413, f"archive: {len(files)} files, expected at most {limits.taught}; send it in parts")
    for one in files:
        if one.compress_type not in _KINDS:
            raise Refused(422, f"archive: {one.filename[:80]!r} is packed in another way than deflate; pack it plainly")
        if one.flag_bits & 1:
            raise Refused(422, f"archive: {one.filename[:80]!r} is encrypted")
        if one.file_size > limits.picture_bytes:
            most = limits.picture_bytes // MIB
            raise Refused(413, f"archive: {one.filename[:80]!r} has {one.file_size} bytes, expected at most {most} MiB")
    if (total := sum(one.file_size for one in files)) > limits.unpacked_bytes:
        raise Refused(413, f"archive: {total} bytes unpacked, expected at most {limits.unpacked_bytes // MIB} MiB")


def _content(archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> bytes:
    """A file's content; one that holds more than it says is no file."""
    with archive.open(one) as file:
        data = file.read(one.file_size + 1)
    if len(data) > one.file_size:
        raise Refused(422, f"archive: {one.filename[:80]!r} holds more than it says")
    return data
