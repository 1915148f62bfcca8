"""Every single bit of what is kept, turned: what is read is refused, or is what was written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from scail.classifier.folder.files import Sparing, unfinished
from scail.storage import cache
from scail.storage.cache import cached_tensors
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry, StoreError
from scail.storage.sealed import BrokenSeal, read_sealed, write_sealed
from scail.storage.store import Store

ENTRY = Entry(
    {"network.a": torch.arange(3.0), "b": torch.tensor([[1, 2]]), "c": torch.tensor([7], dtype=torch.uint8)},
    {"made_from": {"previous": "", "n": 1}, "batch": 3, "loss": 0.25, "losses": [0.5, 0.25], "last_words": []},
)


def flips(path: Path) -> Iterator[int]:
    """The file with each of its bits turned, one after the other; as it was at the end."""
    data = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for bit in range(8 * len(data)):
            file.seek(bit // 8)
            file.write(bytes([data[bit // 8] ^ 1 << bit % 8]))
            yield bit
            file.seek(bit // 8)
            file.write(data[bit // 8 : bit // 8 + 1])


def same(found: Entry, written: Entry = ENTRY) -> bool:
    """The same names, kinds, shapes, numbers and facts."""
    tensors = [
        a.dtype == b.dtype and torch.equal(a, b)
        for a, b in ((found.tensors.get(name, torch.empty(0)), tensor) for name, tensor in written.tensors.items())
    ]
    return found.tensors.keys() == written.tensors.keys() and all(tensors) and found.facts == written.facts


def accepted(path: Path, read: Callable[[], Entry | None]) -> tuple[int, int]:
    """How many flips were tried, and how many were read as if nothing were wrong: all with the same content."""
    tried, taken = 0, 0
    for bit in flips(path):
        found = read()
        tried += 1
        if found is not None:
            taken += 1
            assert same(found), f"bit {bit} of {path.name} gave something else"
    assert same(read())
    return tried, taken


def of_a_model(folder: Path) -> Checkpoint:
    """As a learn keeps it, which was just begun."""
    checkpoint = unfinished(folder)("k").stage("training")
    assert isinstance(checkpoint, Sparing)
    checkpoint.written[0] -= 3600
    return checkpoint


@pytest.mark.parametrize("make", [lambda folder: Checkpoint(folder / "k.training.safetensors"), of_a_model])
def test_a_checkpoint(tmp_path, make):
    checkpoint = make(tmp_path)
    checkpoint.save(ENTRY)
    tried, taken = accepted(checkpoint.path, checkpoint.load)
    assert tried > 3000 and taken == 0


@pytest.mark.parametrize("name", ["tensors.safetensors", "entry.json"])
def test_a_state_of_the_store(store_dir, name):
    store = Store(store_dir)
    store.save(ENTRY)

    def read() -> Entry | None:
        try:
            return store.load(ENTRY.key, use=False)
        except StoreError:
            return None

    tried, taken = accepted(store_dir / "states" / ENTRY.key / name, read)
    # Of the record, when it was made and the room between its words tell nothing about the state.
    assert tried > 1500 and (taken == 0 if name.startswith("tensors") else taken < tried / 4)


def test_an_image_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path))
    images, made = {"images": torch.arange(96, dtype=torch.uint8).view(2, 3, 4, 4)}, list[int]()

    def make() -> dict[str, Tensor]:
        made.append(1)
        return images

    cached_tensors("images-x", make)
    monkeypatch.setattr(cache, "keep", lambda path, content: None)  # it stays as it was flipped
    tried = 0
    for _ in flips(tmp_path / "images-x.safetensors"):
        assert torch.equal(cached_tensors("images-x", make)["images"], images["images"])
        tried += 1
    assert tried > 1000 and len(made) == 1 + tried
    cached_tensors("images-x", lambda: pytest.fail("made again"))


def test_files_that_are_exchanged_are_refused(tmp_path):
    """Each is whole, and under the name of another."""
    for name in ("a.training.safetensors", "b.training.safetensors"):
        Checkpoint(tmp_path / name).save(ENTRY)
    (tmp_path / "a.training.safetensors").rename(tmp_path / "b.training.safetensors")
    assert Checkpoint(tmp_path / "b.training.safetensors").load() is None


@pytest.mark.parametrize("content", [b"", b"x", bytes(10_000)])
def test_what_is_sealed_comes_back_and_what_is_cut_or_longer_does_not(tmp_path, content):
    path = tmp_path / "ü\udcff"  # any name that the system takes
    write_sealed(path, content)
    assert read_sealed(path) == content
    data = path.read_bytes()
    for changed in (data[:-1], data + b"\0", data[1:], b"", content, data[: len(data) // 2], bytes(len(data))):
        path.write_bytes(changed)
        with pytest.raises(BrokenSeal, match="checksum does not match"):
            read_sealed(path)


def test_a_checkpoint_of_the_former_form_is_begun_anew(tmp_path):
    """Its facts had no checksum: nobody can tell whether they are as they were."""
    from safetensors.torch import save_file

    checkpoint = Checkpoint(tmp_path / "k.safetensors").stage("training")
    facts = {"batch": 1, "loss": 0.5, "losses": [], "checksum": "0" * 64}
    save_file({"a": torch.ones(2)}, checkpoint.path, {"facts": json.dumps(facts)})
    assert checkpoint.load() is None and Checkpoint(tmp_path / "k.safetensors").stages() == [None]
    checkpoint.save(ENTRY)
    assert same(checkpoint.load())
