"""What a run gave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scail.results.row import Row


@dataclass(frozen=True)
class Results:
    """What a run gave, and where it is."""

    directory: Path
    rows: list[Row]
    summary: dict[str, Any]
