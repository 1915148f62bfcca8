"""What is kept of a state: tensors and facts, in two files that are checked when they are read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from scail.storage.atomic import named, told

FORMAT = 1
TENSORS, RECORD = "tensors.safetensors", "entry.json"


@dataclass(frozen=True)
class Entry:
    """What the store holds under a key: tensors, and facts that JSON can carry."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    @property
    def key(self) -> str:
        """The key of what it was made from: there is no other under which it is kept."""
        return key_of(self.facts["made_from"])


class StoreError(ValueError):
    """The store cannot be used: what is wrong with which file, and what to do."""


class DamagedEntry(StoreError):
    """A file of the store is not what was written."""


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of these facts: equal facts, equal key; and the same of what a file of JSON gives back of them."""
    as_read = json.loads(json.dumps(facts))  # names that are numbers become texts, which have another order
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()[:32]


def to_files(entry: Entry) -> dict[str, bytes]:
    """Name and content of its files; the record, which makes it an entry, is the last one."""
    from safetensors.torch import save

    if name := not_finite(entry.tensors):
        raise StoreError(f"{name} has numbers that are NaN or infinite: it is not kept. Try a lower learning rate")
    data = save({name: tensor.contiguous() for name, tensor in entry.tensors.items()})
    record = {
        "format": FORMAT,
        "tensors_sha256": hashlib.sha256(data).hexdigest(),
        "facts_sha256": key_of(entry.facts),
        "created": time.time(),
        "facts": entry.facts,
    }
    return {TENSORS: data, RECORD: json.dumps(record, indent=1).encode()}


def from_files(files: Mapping[str, bytes], key: str, place: str) -> Entry:
    """The entry of this key, everything in its files checked. Raises `DamagedEntry`, which begins with the place."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    record = record_in(files[RECORD], f"{place}/{RECORD}")
    check_format(record.get("format"), place)
    try:
        if hashlib.sha256(files[TENSORS]).hexdigest() != record["tensors_sha256"]:
            raise DamagedEntry(f"{place}/{TENSORS}: checksum does not match")
        if key_of(record["facts"]) != record["facts_sha256"]:
            raise DamagedEntry(f"{place}/{RECORD}: checksum does not match")
        entry = Entry(load(files[TENSORS]), record["facts"])
        if entry.key != key:
            raise DamagedEntry(f"{place}: holds the state of the key {entry.key}; it was renamed or exchanged")
    except (KeyError, TypeError, SafetensorError) as error:
        raise DamagedEntry(f"{place}: {error!r}") from error
    if name := not_finite(entry.tensors):
        raise DamagedEntry(f"{place}/{TENSORS}: {name} has numbers that are NaN or infinite")
    return entry


def record_in(data: bytes, place: str) -> dict[str, Any]:
    """What a JSON file holds, if it is a record. Raises `DamagedEntry`."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedEntry(f"{place}: {error}") from error
    if not isinstance(record, dict):
        raise DamagedEntry(f"{place}: not a record")
    return record


def check_format(form: object, place: str) -> None:
    """An error where this scail does not read this format."""
    if not isinstance(form, int):
        raise DamagedEntry(f"{place}: has no format number")
    if form != FORMAT:
        raise StoreError(
            f"{place}: format {form!r}, this scail reads format {FORMAT}; "
            "use the scail that wrote it, or another --store"
        )


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with a number that is NaN or infinite; None: all can be computed with.

    >>> import torch
    >>> not_finite({"a": torch.ones(2), "b": torch.tensor([1.0, torch.nan]), "c": torch.tensor(-torch.inf)})
    'b'
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            wide = tensor.float() if tensor.element_size() == 1 else tensor
            least, most = wide.aminmax()  # a single pass: NaN comes through, an infinite number is one of the two
            if not (least.isfinite() and most.isfinite()):
                return name
    return None


@contextlib.contextmanager
def clear_errors(place: Path, how: str = "") -> Iterator[None]:
    """Full disk, read-only directory: say which file, and what to do; `how` another place is chosen."""
    try:
        with named(place):
            yield
    except OSError as error:
        raise StoreError(
            f"cannot write to {told(error)}. Nothing was damaged; another place can be chosen{how}"
        ) from error
