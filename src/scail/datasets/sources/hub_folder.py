"""A folder in the Hub's layout, looked through before anything is read from it: nothing in it leads out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from scail.storage.plain_yaml import read_yaml
from scail.storage.reading import MIB, read_text, size_text, why

_CARDS = ("README.md", ".huggingface.yaml")
_FRONT = re.compile(r"\s*---[\r\n]+([\S\s]*?)[\r\n]+---(?:\r\n|\r|\n|$)")  # as the Hub's own library finds it
_MOST_CARD = 8 * MIB
_MOST_VALUES = 200_000  # of a card: it may name tens of thousands of classes
_MOST_ROWS = 200_000_000
_MOST_TIMES = 200  # that a file may be larger unpacked; pictures are packed already
_SMALL = 256 * MIB  # unpacked; smaller files may be packed as well as they like


def check_folder(folder: Path) -> None:
    """An error if its card names files elsewhere, or if its tables would fill the disk."""
    for name in _CARDS:
        if (card := folder / name).is_file():
            _check_card(card)
    rows, unpacked = 0, 0
    for path in sorted(folder.rglob("*.parquet")):
        more, size = _size_of(path)
        rows, unpacked = rows + more, unpacked + size
        if size > max(_SMALL, _MOST_TIMES * path.stat().st_size):
            raise ValueError(
                f"{path}: {size_text(size)} unpacked, {_MOST_TIMES} times its size: not taken for pictures"
            )
    if rows > _MOST_ROWS:
        raise ValueError(f"{folder}: {rows:,} rows, expected at most {_MOST_ROWS:,}")


def _size_of(path: Path) -> tuple[int, int]:
    """Rows, and bytes unpacked, as the file itself says."""
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
        return about.num_rows, sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    except Exception as error:  # pyarrow has a dozen kinds
        raise ValueError(f"{path}: cannot be read as Parquet ({why(error)}); get it again") from error


def _check_card(card: Path) -> None:
    text = read_text(card, _MOST_CARD)
    if card.suffix == ".md":
        found = _FRONT.match(text)
        text = found[1] if found else ""
    _, said = read_yaml(text, str(card), _MOST_VALUES)
    for pattern in _texts(said.get("configs") if isinstance(said, dict) else None):
        parts = PurePosixPath(pattern.replace("\\", "/")).parts
        if "://" in pattern or "::" in pattern or {"/", "..", "~"} & set(parts):
            raise ValueError(f"{card}: names {pattern!r}, which is not in its folder; nothing was read")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def inside(column: Any, roots: Sequence[Path]) -> Any:
    """An Arrow column of images, each with its bytes or with a path that leads to a file below one of the folders."""
    import pyarrow

    if not pyarrow.types.is_struct(column.type) or {"bytes", "path"} - {field.name for field in column.type}:
        raise ValueError(f"its images are {column.type}, expected bytes and path of each")
    if not any(chunk.null_count or chunk.field("bytes").null_count for chunk in column.chunks):
        return column
    real = [root.resolve() for root in roots]
    chunks, row = [], 0
    for chunk in column.chunks:
        values = [_inside(one, roots[0], real, row + i) for i, one in enumerate(chunk.to_pylist())]
        chunks.append(pyarrow.array(values, column.type))
        row += len(values)
    return pyarrow.chunked_array(chunks, column.type)


def _inside(image: dict[str, Any] | None, folder: Path, real: Sequence[Path], row: int) -> dict[str, Any]:
    if image is not None and image["bytes"] is not None:
        return {**image, "path": None}
    if image is None or not image["path"]:
        raise ValueError(f"row {row} has no image")
    try:
        path = (folder / image["path"]).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a name that no file can have; links in a circle
        raise ValueError(f"row {row}: {image['path'][:80]!r}: {why(error)}") from error
    if not any(path.is_relative_to(root) for root in real):
        raise ValueError(f"row {row}: {image['path'][:200]!r} is not in the data set's folder; it is not read")
    return {"bytes": None, "path": str(path)}


def labels_of(column: Any, names: Sequence[str] | None) -> list[Any]:
    """The labels in an Arrow column: numbers of these names, or any plain values. A row without one is an error."""
    import pyarrow

    if pyarrow.types.is_nested(column.type):
        raise ValueError(f"its labels are {column.type}, expected a number or a text for each image")
    values: list[Any] = column.to_pylist()
    for row, value in enumerate(values):
        if value is None or (names is not None and value == -1):
            raise ValueError(f"row {row} has no label; images without labels cannot be learned")
        if names is not None and not (isinstance(value, int) and 0 <= value < len(names)):
            raise ValueError(f"row {row} has the label {value!r}, expected 0 to {len(names) - 1}")
    return values
