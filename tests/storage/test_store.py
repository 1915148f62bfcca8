"""The store: atomic, checked, bounded; nothing in it is ever trusted blindly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from scail.storage.entry import DamagedEntry, Entry, StoreError, key_of, not_finite
from scail.storage.store import Store, parse_size
from tests.storage.stored import entry, key


def test_what_is_saved_comes_back(store_dir):
    store = Store(store_dir)
    assert store.load(key()) is None
    store.save(entry(3.5))
    back = store.load(key())
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
    store.save(entry())
    path = store_dir / "states" / key() / file
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "flip":
        at = data.index(b"1.0") if file == "entry.json" else len(data) - 1
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    with pytest.raises(DamagedEntry, match=f"states/{key()}"):
        store.load(key())
    told: list[str] = []
    assert store.find(key(), told.append) is None
    assert f"states/{key()}" in told[0]
    store.save(entry(2.0))  # made again
    assert store.load(key()).facts["value"] == 2.0


@pytest.mark.parametrize(
    "record", ["{}", '{"format": null}', '{"format": 1, "facts": null}', '{"format": 1, "facts": {"made_from": "x"}}']
)
def test_records_of_the_wrong_shape_are_damage_and_can_be_listed(store_dir, record):
    store = Store(store_dir)
    store.save(entry())
    (store_dir / "states" / key() / "entry.json").write_text(record)
    with pytest.raises(DamagedEntry):
        store.load(key())
    (item,) = store.listing()
    assert (item.facts, item.previous) == ({}, "") and item.size > 0


MANY = """
import sys
from pathlib import Path
import torch
from scail.storage.entry import Entry
from scail.storage.store import Store
store = Store(Path(sys.argv[1]))
entries = [Entry({"a": torch.ones(500)}, {"made_from": {"n": n}}) for n in range(5)]
for n in range(60):
    store.save(entries[n % 5])
    store.load(entries[(n + 1) % 5].key)
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
    store.save(entry())
    path = store_dir / "states" / key() / "entry.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(StoreError, match="format 99"):
        store.find(key(), lambda damage: pytest.fail("not damaged: another format"))
    assert path.exists()
    (store_dir / "store.json").write_text('{"scail store, format": 99}')
    with pytest.raises(StoreError, match="format 99"):
        Store(store_dir)


def test_a_mark_that_is_damaged_is_named_with_the_way_out(store_dir):
    store = Store(store_dir)
    store.save(entry())
    mark = store_dir / "store.json"
    for text in ("", "{}", "[1]", '{"scail store, format": "1"}'):
        mark.write_text(text)
        with pytest.raises(StoreError, match=r"store\.json.*remove this file: the next command writes it again"):
            Store(store_dir)
    mark.unlink()
    assert Store(store_dir).load(key()) is not None and mark.exists()


def test_a_key_is_that_of_the_facts_as_a_file_gives_them_back(store_dir):
    made_from = {"previous": "", "rates": {1: 0.1, 10: 0.2, 2: 0.3}, "sizes": (3, 4)}
    assert key_of(made_from) == key_of(json.loads(json.dumps(made_from)))
    store, made = Store(store_dir), Entry({"a": torch.ones(1)}, {"made_from": made_from})
    store.save(made)
    assert store.load(made.key) is not None


def test_keys_of_version_0_1_are_those_of_its_facts():
    known = json.loads((Path(__file__).parents[1] / "data" / "version_0_1" / "keys.json").read_text())
    assert len(known) > 20 and all(key_of(facts) == key for key, facts in known.items())


def test_two_states_that_were_exchanged_are_found(store_dir):
    store, (a, b) = Store(store_dir), (store_dir / "states" / key(name) for name in "ab")
    store.save(entry(1.0, name="a"))
    store.save(entry(2.0, name="b"))
    a.rename(store_dir / "aside")
    b.rename(a)
    (store_dir / "aside").rename(b)
    for mine, other in (("a", "b"), ("b", "a")):
        with pytest.raises(DamagedEntry, match=f"states/{key(mine)}: holds the state of the key {key(other)}"):
            store.load(key(mine))
    store.save(entry(1.0, name="a"))  # made again
    assert store.load(key("a")).facts["value"] == 1.0


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_none_are_neither_kept_nor_taken(store_dir, bad, monkeypatch):
    store, spoiled = Store(store_dir), entry()
    spoiled.tensors["b"] = torch.ones(3, 3)
    spoiled.tensors["b"][1, 1] = bad
    with pytest.raises(StoreError, match="b has numbers that are NaN or infinite: it is not kept"):
        store.save(spoiled)
    assert store.keys() == set()
    with monkeypatch.context() as before:  # as versions before kept it
        before.setattr("scail.storage.entry.not_finite", lambda tensors: None)
        store.save(spoiled)
    with pytest.raises(DamagedEntry, match=f"{key()}/tensors.safetensors: b has numbers that are NaN or infinite"):
        store.load(key())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn])
def test_numbers_of_every_kind_are_looked_at(kind):
    assert not_finite({"a": torch.ones(5).to(kind), "b": torch.ones(0).to(kind)}) is None
    assert not_finite({"a": torch.tensor([1.0, torch.nan]).to(kind)}) == "a"
    assert not_finite({"a": torch.tensor([1, -7]), "b": torch.tensor(True)}) is None


def test_to_find_or_make_makes_once(store_dir):
    store, made = Store(store_dir), list[Entry]()

    def make() -> Entry:
        made.append(entry(7.0))
        return made[-1]

    for _ in range(2):
        found = store.find_or_make(key(), make, pytest.fail, lambda: pytest.fail("waited"))
        assert found.facts["value"] == 7.0
    assert len(made) == 1
    path, said = store_dir / "states" / key() / "entry.json", list[str]()
    path.write_text("{")
    store.find_or_make(key(), make, said.append, lambda: None)
    assert len(made) == 2 and len(said) == 1 and str(path) in said[0]


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
small, large = (Entry({"a": torch.ones(size)}, {"made_from": {"size": size}}) for size in (4, 100_000))
store.save(small)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # from here on large writes fail, as on a full disk
for save in (store.save, store.checkpoint(large.key).save):
    try:
        save(large)
        sys.exit("no error")
    except StoreError as error:
        assert "cannot write" in str(error), error
assert store.load(large.key) is None and store.checkpoint(large.key).load() is None
assert torch.equal(store.load(small.key).tensors["a"], torch.ones(4))
left = [p.name for p in Path(sys.argv[1]).rglob(".*")]
assert not left, left
"""


def test_a_full_disk_is_a_clear_error_and_damages_nothing(store_dir):
    subprocess.run([sys.executable, "-c", FULL_DISK, str(store_dir)], check=True)


@pytest.mark.parametrize("text", ["", "GB", "ten", "-1GB", "5XB", "infGB", "nan"])
def test_sizes_that_are_none(text):
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_nothing_in_the_package_unpickles():
    source = "".join(path.read_text() for path in (Path(__file__).parents[2] / "src").rglob("*.py"))
    safe = 'torch.load(BytesIO(data), map_location="cpu", weights_only=True)'
    assert source.count(safe) == 1  # a package's weights: nothing but tensors is read
    source = source.replace(safe, "")
    assert not re.search(r"import pickle\b", source)  # pickletools only lists what a pickle would do
    for word in ("torch.load(", "torch.save(", "allow_pickle=True", "joblib.load"):
        assert word not in source


@pytest.mark.parametrize("left", [".store.json.0123", f".scail-store.json.{'0' * 32}"])
def test_a_store_whose_first_process_was_killed_can_be_used(store_dir, left):
    store_dir.mkdir()
    (store_dir / left).write_text("half")
    Store(store_dir).save(entry())
    assert Store(store_dir).load(key()) is not None
