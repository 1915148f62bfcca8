"""Where the model of a folder was shared, and which one that was: so that nothing is replaced that was not seen."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from scail.classifier.folder.record import FolderError, read_inside
from scail.storage.atomic import write_text
from scail.storage.reading import parsed
from scail.storage.records import decode

ORIGIN = ".scail-shared.json"


@dataclass(frozen=True)
class Origin:
    """The last push or pull of a folder."""

    place: str
    revision: str | None
    stamp: str
    """Of the model that was then the same here and there."""


def read_origin(root: Path) -> Origin | None:
    """None where it was never shared, or where that cannot be read any more."""
    with contextlib.suppress(OSError, FolderError, ValueError):
        found: Origin = decode(Origin, parsed(read_inside(root, ORIGIN, 2**16)), ORIGIN)
        return found
    return None


def write_origin(root: Path, origin: Origin) -> None:
    """Note it. Whoever copies the folder copies this, too, and rightly so."""
    write_text(root / ORIGIN, json.dumps(asdict(origin), indent=1) + "\n")
