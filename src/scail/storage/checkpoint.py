"""Trainings that are not finished: what was trained so far, in one file for each stage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from scail.storage.atomic import write_bytes
from scail.storage.entry import Entry, clear_errors


@dataclass(frozen=True)
class Checkpoint:
    """An unfinished training on disk: tensors and facts in one file, replaced atomically."""

    path: Path

    def load(self) -> Entry | None:
        """What was saved last; None where there is nothing, or nothing whole."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                record = json.loads((file.metadata() or {})["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, ValueError, KeyError, SafetensorError):
            return None
        return Entry(tensors, record) if record.pop("checksum", None) == _checksum(tensors) else None

    def save(self, entry: Entry) -> None:
        """Replace what was saved before."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in entry.tensors.items()}
        facts = json.dumps({**entry.facts, "checksum": _checksum(tensors)})
        with clear_errors(self.path.parent):
            write_bytes(self.path, save(tensors, {"facts": facts}))

    def stage(self, name: str) -> Checkpoint:
        """The checkpoint of one stage of the training."""
        return Checkpoint(self.path.with_name(f"{self.path.stem}.{name.replace(' ', '-')}{self.path.suffix}"))

    def stages(self) -> list[Entry | None]:
        """What is saved of all stages; None for a file that is damaged."""
        return [Checkpoint(path).load() for path in sorted(self.path.parent.glob(f"{self.path.stem}.*"))]

    def remove(self) -> None:
        """The training is finished."""
        stem = self.path.stem
        # The last two: what a process that was killed was writing, as it is named now and as version 0.1 named it.
        for pattern in (f"{stem}.*", f".scail-{stem}.*", f".{stem}.*"):
            for path in [*self.path.parent.glob(pattern)]:
                path.unlink(missing_ok=True)


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
