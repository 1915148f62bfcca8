"""Stores behind URLs, with the file systems that fsspec has built in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from scail.benchmark.runner import run_experiment
from scail.cli.main import main
from scail.storage.entry import DamagedEntry, StoreError
from scail.storage.remote_store import RemoteStore, keys_in, open_store
from scail.storage.store import Store
from tests.forked import Forked
from tests.storage.stored import entry, key, read_only, without_privileges, writable


@pytest.fixture
def url(tmp_path, monkeypatch):
    """A place of its own behind file://; `machine(name)` chooses whose cache is used."""
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    return f"file://{tmp_path}/remote"


def machine(monkeypatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / name))


def test_a_directory_is_a_directory_and_a_url_is_not(tmp_path, url, monkeypatch):
    assert type(open_store(tmp_path / "store")) is Store
    assert isinstance(open_store(url), RemoteStore)
    monkeypatch.setenv("SCAIL_STORE", url)
    assert open_store().place == url
    assert keys_in() == set()


def test_memory_file_system(tmp_path, monkeypatch):
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path))
    store = open_store("memory://states-of-a-test")
    store.save(entry(2.5))
    assert keys_in("memory://states-of-a-test") == {key()}
    store.remove(key())  # from the cache
    back = store.load(key())
    assert back is not None and torch.equal(back.tensors["a"], entry(2.5).tensors["a"])


def test_what_one_machine_saves_another_reads_through_its_cache(tmp_path, url, monkeypatch):
    open_store(url).save(entry(3.5))
    assert sorted(p.name for p in (tmp_path / "remote" / "states" / key()).iterdir()) == [
        "entry.json",
        "tensors.safetensors",
    ]
    machine(monkeypatch, tmp_path, "other")
    store = open_store(url)
    assert store.load(key("missing")) is None
    back = store.load(key())
    assert back is not None and back.facts["value"] == 3.5
    # From now on its own copy is enough.
    for path in (tmp_path / "remote" / "states" / key()).iterdir():
        path.unlink()
    assert store.load(key()) is not None
    assert keys_in(url) == set()


def test_an_entry_is_there_when_its_record_is(tmp_path, url, monkeypatch):
    """The tensors are uploaded first: whoever dies in between has written nothing."""
    open_store(url).save(entry())
    (tmp_path / "remote" / "states" / key() / "entry.json").unlink()
    machine(monkeypatch, tmp_path, "other")
    assert open_store(url).load(key()) is None


def test_damage_in_the_cache_is_fetched_again_and_damage_behind_the_url_is_named(tmp_path, url):
    store = open_store(url)
    store.save(entry(4.0))
    copy = store.root / "states" / key() / "tensors.safetensors"
    copy.write_bytes(copy.read_bytes()[:-1])
    assert store.load(key()).facts["value"] == 4.0
    remote = tmp_path / "remote" / "states" / key() / "tensors.safetensors"
    remote.write_bytes(remote.read_bytes()[:-1])
    store.remove(key())
    with pytest.raises(DamagedEntry):
        store.load(key())
    store.save(entry(4.0))  # made again
    store.remove(key())
    assert store.load(key()).facts["value"] == 4.0


def test_entries_that_were_exchanged_behind_the_url_are_found(tmp_path, url, monkeypatch):
    for name in "ab":
        open_store(url).save(entry(name=name))
    states = tmp_path / "remote" / "states"
    for source, target in ((key("a"), "aside"), (key("b"), key("a")), ("aside", key("b"))):
        (states / source).rename(states / target)
    machine(monkeypatch, tmp_path, "other")
    store = open_store(url)
    for read in (store.load, store.reread):
        with pytest.raises(DamagedEntry, match=f"{url}/states/{key('a')}: holds the state of the key {key('b')}"):
            read(key("a"))
    assert store.listing() == []  # what is damaged is not copied
    store.save(entry(name="a"))  # made again
    machine(monkeypatch, tmp_path, "third")
    assert open_store(url).load(key("a")) is not None


def test_an_entry_without_its_tensors_is_damaged_not_a_lost_connection(tmp_path, url, monkeypatch):
    open_store(url).save(entry())
    (tmp_path / "remote" / "states" / key() / "tensors.safetensors").unlink()
    machine(monkeypatch, tmp_path, "other")
    said: list[str] = []
    assert open_store(url).find(key(), said.append) is None
    assert "tensors.safetensors" in said[0] and "is missing" in said[0]


def test_a_full_cache_or_one_that_somebody_uses_costs_time_only(tmp_path, url, monkeypatch):
    open_store(url).save(entry())
    machine(monkeypatch, tmp_path, "other")
    store, other = open_store(url), open_store(url)
    with other.lock(key()):  # somebody is just training it here
        assert store.load(key()) is not None and store.listing() == []

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store, "_put", full)
        assert store.load(key()) is not None and store.listing() == []
    with store.lock(key()):  # it looks again once it has the lock
        assert store.load(key()) is not None
    assert len(store.listing()) == 1


def read_as_a_user() -> None:
    without_privileges()
    store = open_store(os.environ["SCAIL_STORE"])
    assert store.load(key()) is not None and store.load(key()) is not None
    with pytest.raises(StoreError, match="Permission denied"):
        store.save(entry(name="b"))


def test_a_url_that_can_only_be_read_serves_what_is_there(tmp_path, url, monkeypatch):
    open_store(url).save(entry())
    read_only(tmp_path / "remote")
    machine(monkeypatch, tmp_path, "other")
    try:
        with Forked(run=read_as_a_user, env=os.environ | {"SCAIL_STORE": url}) as process:
            said, _ = process.communicate()
        assert process.returncode == 0, said
    finally:
        writable(tmp_path / "remote")


def test_what_another_process_evicts_from_the_cache_is_uploaded_all_the_same(tmp_path, url, monkeypatch):
    store = open_store(url)
    monkeypatch.setattr(store, "shrink", lambda limit, keep="": store.remove(keep))
    store.save(entry())
    assert keys_in(url) == {key()} and open_store(url).load(key()) is not None


def test_the_limit_is_the_caches(tmp_path, url, monkeypatch):
    monkeypatch.setenv("SCAIL_STORE_LIMIT", "500")
    store = open_store(url)
    for name in "abc":
        store.save(entry(name=name))
    assert len(store.listing()) == 1
    assert keys_in(url) == store.keys() == {key(name) for name in "abc"}


def test_two_writers_without_a_lock_give_equal_bits(tiny, tmp_path, url, monkeypatch):
    """Two machines train the same states at the same time, as far as the store can tell."""
    short = tiny.but(methods=("ft", "deesil"), select=("random",), accelerator="cpu")
    found = []
    for name in ("one", "two"):
        machine(monkeypatch, tmp_path, name)
        results = run_experiment(short, tmp_path / f"run-{name}", store=f"{url}-{name}", jobs=1)
        assert results.summary["trained_epochs"] > 0
        states = tmp_path / f"remote-{name}" / "states"
        found.append({path.parent.name: path.read_bytes() for path in states.glob("*/tensors.safetensors")})
    assert found[0] == found[1] and len(found[0]) == 8
    # The second one's files over the first one's: still whole.
    one, two = (open_store(f"{url}-{name}") for name in ("one", "two"))
    for each in found[0]:
        two.save(one.load(each))
    again = run_experiment(short, tmp_path / "again", store=f"{url}-two", jobs=1)
    assert again.summary["trained_epochs"] == 0


def test_a_run_with_a_url_trains_nothing_twice(tmp_path, url, capsys):
    options = ["run", "--dataset", "digits", "--classes", "4", "--images-per-class", "20", "--states", "2"]
    options += ["--methods", "ft", "--select", "random", "--epochs", "1", "--jobs", "1", "--store", url]
    for name, epochs in (("a", 2), ("b", 0)):
        with pytest.raises(SystemExit) as end:
            main([*options, "--out", str(tmp_path / name)])
        assert not end.value.code
        assert json.loads((tmp_path / name / "summary.json").read_text())["trained_epochs"] == epochs


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("nowhere://bucket/states", "nowhere"),
        ("s3://bucket/states", "s3fs"),
    ],
)
def test_a_url_that_cannot_be_used_is_a_clear_error(tmp_path, monkeypatch, place, expected):
    import importlib.util

    if place.startswith("s3") and importlib.util.find_spec("s3fs"):
        pytest.skip("s3fs is installed")
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path))
    with pytest.raises(StoreError, match=expected):
        open_store(place)


def test_an_object_store_that_fails_is_a_clear_error(tmp_path, url, monkeypatch):
    store = open_store(url)

    def fail(*_: object, **__: object) -> None:
        raise PermissionError("access denied")

    monkeypatch.setattr(store._files, "open", fail)
    with pytest.raises(StoreError, match="access denied; nothing in it was damaged"):
        store.save(entry())


def test_scail_store_looks_into_directories_only(url, capsys):
    with pytest.raises(SystemExit) as end:
        main(["store", "ls", "--store", url])
    assert end.value.code == 2 and "only a directory" in capsys.readouterr().err
