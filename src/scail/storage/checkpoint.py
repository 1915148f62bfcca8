"""Trainings that are not finished: what was trained so far, in one file for each stage."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scail.storage.entry import Entry, clear_errors
from scail.storage.flushing import Flushed
from scail.storage.sealed import read_sealed, write_sealed


@dataclass(frozen=True)
class Checkpoint:
    """An unfinished training on disk: tensors and facts in one file under one checksum, replaced atomically."""

    path: Path

    def load(self) -> Entry | None:
        """What was saved last; None where there is nothing, or nothing whole."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            data = read_sealed(self.path)
            return Entry(load(data), _facts_in(data))
        except (OSError, ValueError, KeyError, TypeError, SafetensorError):
            return None

    def save(self, entry: Entry) -> None:
        """Replace what was saved before."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in entry.tensors.items()}
        with clear_errors(self.path.parent):
            self.path.parent.mkdir(exist_ok=True)
            write_sealed(self.path, save(tensors, {"facts": json.dumps(entry.facts)}), Flushed.CONTENT)

    def stage(self, name: str) -> Checkpoint:
        """The checkpoint of one stage of the training."""
        return Checkpoint(self.path.with_name(f"{self.path.stem}.{name.replace(' ', '-')}{self.path.suffix}"))

    def stages(self) -> list[Entry | None]:
        """What is saved of all stages; None for a file that is damaged, or of an older scail."""
        return [Checkpoint(path).load() for path in sorted(self.path.parent.glob(f"{self.path.stem}.*"))]

    def remove(self) -> None:
        """The training is finished."""
        stem = self.path.stem
        # The last two: what a process that was killed was writing, as it is named now and as version 0.1 named it.
        for pattern in (f"{stem}.*", f".scail-{stem}.*", f".{stem}.*"):
            for path in [*self.path.parent.glob(pattern)]:
                path.unlink(missing_ok=True)


def _facts_in(data: bytes) -> dict[str, Any]:
    """What a safetensors file says beside its tensors."""
    length = int.from_bytes(data[:8], "little")
    found: dict[str, Any] = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["facts"])
    return found
