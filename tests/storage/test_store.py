"""The store: atomic, checked, bounded; nothing in it is ever trusted blindly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from scail.storage.entry import Entry, StoreError
from scail.storage.store import DamagedEntry, Store, key_of, parse_size


def entry(value: float = 1.0, size: int = 10) -> Entry:
    return Entry({"a": torch.full((size,), value)}, {"made_from": {"previous": ""}, "value": value})


def test_what_is_saved_comes_back(store_dir):
    store = Store(store_dir)
    assert store.load("k") is None
    store.save("k", entry(3.5))
    back = store.load("k")
    assert back is not None
    assert torch.equal(back.tensors["a"], torch.full((10,), 3.5))
    assert back.facts["value"] == 3.5
    assert not list((store_dir / "states").glob(".*"))  # nothing is left aside


def test_a_key_depends_on_every_fact():
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"a": 1, "b": 2}) != key_of({"a": 1, "b": 3})


@pytest.mark.parametrize("file", ["tensors.safetensors", "entry.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "missing"])
def test_every_damage_is_noticed_and_named(store_dir, file, damage):
    store = Store(store_dir)
    store.save("k", entry())
    path = store_dir / "states" / "k" / file
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "flip":
        at = data.index(b"1.0") if file == "entry.json" else len(data) - 1
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    with pytest.raises(DamagedEntry, match="states/k"):
        store.load("k")
    told: list[str] = []
    assert store.find("k", told.append) is None
    assert "states/k" in told[0]
    store.save("k", entry(2.0))  # made again
    assert store.load("k").facts["value"] == 2.0


@pytest.mark.parametrize(
    "record", ["{}", '{"format": null}', '{"format": 1, "facts": null}', '{"format": 1, "facts": {"made_from": "x"}}']
)
def test_records_of_the_wrong_shape_are_damage_and_can_be_listed(store_dir, record):
    store = Store(store_dir)
    store.save("k", entry())
    (store_dir / "states" / "k" / "entry.json").write_text(record)
    with pytest.raises(DamagedEntry):
        store.load("k")
    (item,) = store.listing()
    assert (item.facts, item.previous) == ({}, "") and item.size > 0


MANY = """
import sys
from pathlib import Path
import torch
from scail.storage.entry import Entry
from scail.storage.store import Store
store = Store(Path(sys.argv[1]))
for n in range(60):
    store.save(f"key{n % 5}", Entry({"a": torch.ones(500)}, {"made_from": {}}))
    store.load(f"key{(n + 1) % 5}")
    store.listing()
"""


@pytest.mark.soak
def test_processes_that_begin_write_and_evict_together_do_not_disturb_each_other(store_dir):
    """From the very first moment, with the same keys, and under a limit that forces eviction all the time."""
    limit = os.environ | {"SCAIL_STORE_LIMIT": "8KB"}
    command = [sys.executable, "-c", MANY, str(store_dir)]
    running = [subprocess.Popen(command, env=limit, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in running:
        _, said = process.communicate()
        assert process.returncode == 0, said


def test_waiting_for_a_lock_can_be_given_up(store_dir):
    class Enough(Exception):
        pass

    def give_up() -> None:
        raise Enough

    with Store(store_dir).lock("k"), pytest.raises(Enough), Store(store_dir).lock("k", give_up):
        pass


def test_a_limit_that_is_none_names_its_source(store_dir, monkeypatch):
    monkeypatch.setenv("SCAIL_STORE_LIMIT", "lots")
    with pytest.raises(StoreError, match="SCAIL_STORE_LIMIT: size 'lots'"):
        Store(store_dir)


def test_a_newer_format_is_refused_and_left_alone(store_dir):
    store = Store(store_dir)
    store.save("k", entry())
    path = store_dir / "states" / "k" / "entry.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(StoreError, match="format 99"):
        store.find("k", lambda damage: pytest.fail("not damaged: another format"))
    assert path.exists()
    (store_dir / "store.json").write_text('{"scail store, format": 99}')
    with pytest.raises(StoreError, match="format 99"):
        Store(store_dir)


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear all")
    with pytest.raises(StoreError, match="not a scail store"):
        Store(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write to .*--store"):
        Store(tmp_path / "file" / "store")


FULL_DISK = """
import resource, signal, sys, torch
from pathlib import Path
from scail.storage.entry import Entry, StoreError
from scail.storage.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store(Path(sys.argv[1]))
store.save("small", Entry({"a": torch.ones(4)}, {}))
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # from here on large writes fail, as on a full disk
for save in (lambda e: store.save("large", e), store.checkpoint("large").save):
    try:
        save(Entry({"a": torch.ones(100_000)}, {}))
        sys.exit("no error")
    except StoreError as error:
        assert "cannot write" in str(error), error
assert store.load("large") is None and store.checkpoint("large").load() is None
assert torch.equal(store.load("small").tensors["a"], torch.ones(4))
left = [p.name for p in Path(sys.argv[1]).rglob(".*")]
assert not left, left
"""


def test_a_full_disk_is_a_clear_error_and_damages_nothing(store_dir):
    subprocess.run([sys.executable, "-c", FULL_DISK, str(store_dir)], check=True)


def test_least_recently_used_goes_first(store_dir, monkeypatch):
    store = Store(store_dir)
    for n, key in enumerate("abc"):
        store.save(key, entry(size=1000))
        os.utime(store_dir / "states" / key, (n, n))
    assert store.load("a") is not None  # used now: b is the oldest
    assert [item.key for item in store.shrink(10_000)] == ["b"]
    monkeypatch.setenv("SCAIL_STORE_LIMIT", "9KB")
    Store(store_dir).save("d", entry(size=1000))  # every write keeps the limit, and never drops what it wrote
    assert {item.key for item in store.listing()} == {"a", "d"}


def test_sweep_takes_leftovers_only(store_dir):
    store = Store(store_dir)
    store.save("k", entry())
    store.checkpoint("old").save(entry())
    store.checkpoint("new").save(entry())
    halves = [store_dir / "states" / name for name in (".half.123", f".scail-half.{'0' * 32}")]
    for half in halves:
        half.mkdir()
    for path in (*halves, store.checkpoint("old").path):
        os.utime(path, (0, 0))
    swept = {path.name for path in store.sweep(unfinished_after=86400)}
    assert swept == {".half.123", f".scail-half.{'0' * 32}", "old.safetensors"}
    assert not any(half.exists() for half in halves)
    assert store.load("k") and store.checkpoint("new").load()


HOLD = """
import sys, time
from pathlib import Path
from scail.storage.store import Store
with Store(Path(sys.argv[1])).lock("k"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_dead_process_does_not_block(store_dir):
    from filelock import FileLock, Timeout

    command = [sys.executable, "-c", HOLD, str(store_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Timeout):  # while it lives, it is held
            FileLock(store_dir / "locks" / "k.lock").acquire(timeout=0.2)
        holder.kill()
    began = time.monotonic()
    with Store(store_dir).lock("k"):
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("text", ["", "GB", "ten", "-1GB", "5XB", "infGB", "nan"])
def test_sizes_that_are_none(text):
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_nothing_in_the_package_unpickles_but_the_reader_of_plain_arrays():
    files = [path for path in (Path(__file__).parents[2] / "src").rglob("*.py") if path.name != "cifar100.py"]
    source = "".join(path.read_text() for path in files)
    safe = 'torch.load(BytesIO(data), map_location="cpu", weights_only=True)'
    assert source.count(safe) == 1  # a package's weights: nothing but tensors is read
    source = source.replace(safe, "")
    for word in ("import pickle", "torch.load(", "torch.save(", "allow_pickle=True", "joblib.load"):
        assert word not in source


@pytest.mark.parametrize("left", [".store.json.0123", f".scail-store.json.{'0' * 32}"])
def test_a_store_whose_first_process_was_killed_can_be_used(store_dir, left):
    store_dir.mkdir()
    (store_dir / left).write_text("half")
    Store(store_dir).save("k", entry())
    assert Store(store_dir).load("k") is not None
