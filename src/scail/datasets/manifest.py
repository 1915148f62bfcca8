"""The file format of a listing: `# key: JSON` lines, a line of column names, and one CSV row for each image."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from scail.storage.atomic import aside

COLUMNS = ["path", "class", "part"]
KINDS: dict[str, type] = {"name": str, "root": str, "split": str, "icarl": str, "notes": list, "classes": list}
"""The keys of the header, and what each value is: text, or a list of texts."""


def open_manifest(path: Path, mode: str) -> TextIO:
    """The file as text: names that are no valid UTF-8 come back as they were, and line ends inside names stay."""
    return path.open(mode, encoding="utf-8", errors="surrogateescape", newline="")  # type: ignore[return-value]


def write_table(path: Path, header: Mapping[str, object], rows: Iterable[tuple[str, str, str]]) -> None:
    """Write header and rows, in one step: a reader, or a crash, never sees half of the file."""
    with aside(path) as begun, open_manifest(begun, "x") as file:
        file.writelines(f"# {key}: {json.dumps(header[key])}\n" for key in KINDS)
        plain, quoted = (
            csv.writer(file, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
        )
        plain.writerow(COLUMNS)
        for row in rows:  # not every Python quotes a carriage return by itself
            (quoted if any("\r" in value for value in row) else plain).writerow(row)


def read_header(file: TextIO, path: Path) -> tuple[dict[str, Any], int]:
    """The header's values and how many lines it has, the line of column names included."""
    found: dict[str, Any] = {}
    for number, line in enumerate(file, 1):
        if line.startswith("#"):
            key, value = _header_line(line, f"{path}, line {number}")
            found[key] = value
            continue
        if line.strip().split(",") != COLUMNS:
            raise ValueError(f"{path}, line {number}: {line.strip()!r}: expected the columns {','.join(COLUMNS)}")
        if missing := [key for key in KINDS if key not in found]:
            raise ValueError(f"{path}: no line '# {missing[0]}: ...' before the columns; write the manifest anew")
        return found, number
    raise ValueError(f"{path}: ends before the columns {','.join(COLUMNS)}; write the manifest anew")


def _header_line(line: str, where: str) -> tuple[str, Any]:
    key, _, text = line[1:].partition(":")
    key = key.strip()
    if key not in KINDS:
        raise ValueError(f"{where}: unknown key {key!r}, expected one of {', '.join(KINDS)}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: {key} is not JSON ({error})") from error
    texts = value if isinstance(value, list) else [value]
    if not isinstance(value, KINDS[key]) or not all(isinstance(text, str) for text in texts):
        expected = "a list of texts" if KINDS[key] is list else "a text"
        raise ValueError(f"{where}: {key} is {text.strip()}, expected {expected} as JSON")
    return key, value


def read_rows(file: TextIO, path: Path, lines_before: int) -> Iterator[tuple[str, str, str, str]]:
    """Of each row: where it is (for messages), path, class and part. Empty lines are no rows."""
    table = csv.reader(file, strict=True)
    try:
        for row in table:
            where = f"{path}, line {lines_before + table.line_num}"
            if not row:
                continue
            if len(row) != len(COLUMNS):
                raise ValueError(f"{where}: {','.join(row)!r}: expected {','.join(COLUMNS)}")
            image, name, part = row
            if not image or image.startswith("/") or ".." in image.split("/") or "\0" in image:
                raise ValueError(f"{where}: path {image!r}: expected one below the root folder")
            if part not in ("train", "test"):
                raise ValueError(f"{where}: part {part!r}: expected train or test")
            yield where, image, name, part
    except csv.Error as error:
        raise ValueError(f"{path}, line {lines_before + table.line_num}: not CSV ({error})") from error
