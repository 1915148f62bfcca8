"""MNIST from its four IDX files: what is read, and what is a clear error."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
import torch

from scail.datasets import load_dataset
from scail.datasets.sources.mnist import read_idx


def idx(values: torch.Tensor) -> bytes:
    head = bytes((0, 0, 8, values.dim())) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    return head + values.to(torch.uint8).numpy().tobytes()


def write(folder: Path, packed: bool, dot: bool = False) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    folder.mkdir()
    made = {}
    for part, count in (("train", 40), ("t10k", 20)):
        made[f"{part}-images-idx3-ubyte"] = torch.randint(0, 256, (count, 28, 28), generator=draw)
        made[f"{part}-labels-idx1-ubyte"] = torch.arange(count) % 10
    for name, values in made.items():
        spelled = name.replace("-idx", ".idx") if dot else name
        content = idx(values)
        (folder / (f"{spelled}.gz" if packed else spelled)).write_bytes(gzip.compress(content) if packed else content)
    return made


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("SCAIL_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("packed", "dot"), [(True, False), (False, False), (False, True)])
def test_what_is_read_is_what_was_written(data, packed, dot):
    made = write(data / "mnist", packed, dot)
    found = load_dataset("mnist")
    assert torch.equal(found.train.images[:, 0].long(), made["train-images-idx3-ubyte"])
    assert torch.equal(found.test.labels, made["t10k-labels-idx1-ubyte"])
    assert found.class_names == tuple("0123456789") and found.mirror is False
    assert found.train.images.dtype == torch.uint8 and found.shape == (1, 28, 28)


def test_missing_files_say_what_to_do(data):
    with pytest.raises(ValueError, match="train-images-idx3-ubyte"):
        load_dataset("mnist")
    write(data / "mnist", packed=False)
    (data / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte"):
        load_dataset("mnist")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an IDX file"),
        (b"\x00\x00\x0d\x01" + (4).to_bytes(4, "big") + bytes(4), "not an IDX file"),  # floating-point numbers
        (idx(torch.zeros(5))[:-1], "4 bytes for the shape"),
        (idx(torch.full((20,), 11)), "expected one label for each, 0 to 9"),
        (idx(torch.zeros(3)), "3 labels"),
    ],
)
def test_a_damaged_file_is_named(data, content, said):
    write(data / "mnist", packed=False)
    (data / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        load_dataset("mnist")


def test_a_damaged_archive_is_named(tmp_path):
    path = tmp_path / "some.gz"
    path.write_bytes(gzip.compress(idx(torch.zeros(5)))[:-6])
    with pytest.raises(ValueError, match=r"some\.gz: cannot be read"):
        read_idx(path, 1)


def test_the_real_one():
    if not (Path(os.environ.get("SCAIL_DATA", "")) / "mnist").is_dir():
        pytest.skip("MNIST is not in SCAIL_DATA")
    found = load_dataset("mnist")
    assert (len(found.train), len(found.test)) == (60_000, 10_000)
    assert torch.bincount(found.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
