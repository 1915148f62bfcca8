"""What stands in a store's directory is counted, and room is made: not at the cost of who lives, nor of others."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from scail.storage.entry import DamagedEntry, StoreError
from scail.storage.store import Store
from scail.storage.tensor_head import read_tensor_file
from tests.forked import Forked
from tests.storage.stored import entry, key, read_only, without_privileges, writable


def kinds(store: Store) -> list[str]:
    return sorted(one.kind for one in store.held())


def test_least_recently_used_goes_first(store_dir, monkeypatch):
    store = Store(store_dir)
    for n, name in enumerate("abc"):
        store.save(entry(size=1000, name=name))
        os.utime(store_dir / "states" / key(name), (n, n))
    assert store.load(key("a")) is not None  # used now: b is the oldest
    assert [one.key for one in store.shrink(10_000)] == [key("b")]
    monkeypatch.setenv("SCAIL_STORE_LIMIT", "9KB")
    Store(store_dir).save(entry(size=1000, name="d"))  # every write keeps the limit, and never drops what it wrote
    assert store.keys() == {key("a"), key("d")}
    monkeypatch.setenv("SCAIL_STORE_LIMIT", "0")
    Store(store_dir).save(entry(size=1000, name="e"))
    assert store.keys() == {key("e")}


def test_unfinished_trainings_count_in_the_limit_and_go_as_states_do(store_dir):
    store = Store(store_dir)
    for n, name in enumerate("abc"):
        place = store_dir / "states" / key(name)
        if name == "b":
            store.checkpoint(key(name)).stage("training").save(entry(size=1000))
            place = store.checkpoint(key(name)).stage("training").path
        else:
            store.save(entry(size=1000, name=name))
        os.utime(place, (n, n))
    assert kinds(store) == ["state", "state", "training"]
    assert store.shrink(13_500) == []
    assert [(one.kind, one.key) for one in store.shrink(9_000)] == [("state", key("a"))]
    with store.lock(key("b")):  # somebody is at it: the next one goes
        assert [(one.kind, one.key) for one in store.shrink(5_000)] == [("state", key("c"))]
        assert store.shrink(0) == []
    assert [(one.kind, one.key) for one in store.shrink(0)] == [("training", key("b"))]


def killed_while_it_saves() -> None:
    place, what = sys.argv[1:]
    store = Store(Path(place))
    store.lock(key()).__enter__()
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    (store.save if what == "state" else store.checkpoint(key()).stage("training").save)(entry(size=1000))


@pytest.mark.parametrize("what", ["state", "training"])
def test_what_a_killed_process_leaves_counts_is_listed_and_goes_with_the_next_write(store_dir, what):
    with Forked(str(store_dir), what, run=killed_while_it_saves) as process:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    store = Store(store_dir)
    (left,) = store.held()
    assert left.kind == "half" and left.key == key() and left.size > 4000
    store.save(entry(name="another"))
    assert kinds(store) == ["state"] and not left.path.exists()


def test_the_half_of_a_state_goes_as_that_state_is_written(store_dir):
    store = Store(store_dir)
    (store_dir / "states" / f".scail-{key()}.{'0' * 32}").mkdir()
    with store.lock(key()):
        store.save(entry())
    assert kinds(store) == ["state"]


def test_what_another_process_is_writing_stays(store_dir):
    store, other = Store(store_dir), Store(store_dir)
    halves = [
        store_dir / "states" / f".scail-{key()}.{'0' * 32}",
        store_dir / "unfinished" / f".scail-{key()}.t.{'1' * 32}",
    ]
    halves[0].mkdir()
    halves[1].write_text("half")
    checkpoint = store.checkpoint(key()).stage("training")
    checkpoint.save(entry())
    with other.lock(key()):
        assert store.sweep(0) == store.shrink(0) == []
        store.save(entry(name="another"))
        assert all(half.exists() for half in halves) and checkpoint.load() is not None
    assert {one.path for one in store.sweep(0)} == {*halves, checkpoint.path}
    assert kinds(store) == ["state"]


def test_sweep_takes_leftovers_only(store_dir):
    store = Store(store_dir)
    store.save(entry())
    for name in ("old", "new"):
        store.checkpoint(key(name)).stage("training").save(entry())
    halves = [
        *(
            store_dir / "states" / name
            for name in (f".{key()}.123", f".scail-{key()}.{'0' * 32}", f".scail-{'0' * 32}")
        ),
        *(store_dir / name for name in (".store.json.0123", f".scail-store.json.{'0' * 32}")),
    ]
    for half in halves:
        half.mkdir()
    old = store.checkpoint(key("old")).stage("training").path
    for path in (*halves[2:], old):  # the others are told by their locks
        os.utime(path, (0, 0))
    assert {one.path for one in store.sweep(unfinished_after=86400)} == {*halves, old}
    assert not any(half.exists() for half in halves)
    assert store.load(key()) and store.checkpoint(key("new")).stage("training").load()


def test_a_half_that_no_lock_tells_of_stays_for_an_hour(store_dir):
    store = Store(store_dir)
    half = store_dir / "states" / f".scail-{'0' * 32}"
    half.mkdir()
    assert store.sweep(0) == [] and kinds(store) == ["half"]
    os.utime(half, (time.time() - 4000,) * 2)
    assert [one.path for one in store.sweep(0)] == [half]


def test_the_checkpoint_of_a_state_that_is_there_is_swept(store_dir):
    """A process was killed right after it had saved the state."""
    store = Store(store_dir)
    store.checkpoint(key()).stage("training").save(entry())
    store.save(entry())
    assert kinds(store) == ["state"]


def stray(store_dir: Path) -> list[Path]:
    """Files and folders that scail did not write."""
    names = ("states/notes.txt", "states/.DS_Store", "unfinished/mine", f"states/{'g' * 32}", "mine.txt")
    paths = [store_dir / name for name in names] + [store_dir / "states" / f"{key()} (copy)"]
    for path in paths:
        path.write_text("mine")
    (store_dir / "states" / "folder").mkdir()
    (store_dir / "states" / "folder" / "thesis").write_text("years")
    return [*paths, store_dir / "states" / "folder" / "thesis"]


def test_strays_fail_nothing_and_are_never_removed(store_dir):
    store = Store(store_dir)
    mine = stray(store_dir)
    store.save(entry())
    assert [item.key for item in store.listing()] == [key()] and store.keys() == {key()}
    assert kinds(store).count("stray") == 6
    for path in mine:
        os.utime(path, (0, 0))
    store.sweep(0)
    assert [one.kind for one in store.shrink(0)] == ["state"]
    assert all(path.read_text() in ("mine", "years") for path in mine)


def test_a_link_to_a_state_is_a_state_and_goes_alone(store_dir, tmp_path):
    store = Store(store_dir)
    store.save(entry())
    (store_dir / "states" / key()).rename(tmp_path / "elsewhere")
    (store_dir / "states" / key()).symlink_to(tmp_path / "elsewhere")
    assert store.load(key()) is not None and kinds(store) == ["state"]
    store.remove(key())
    assert kinds(store) == [] and (tmp_path / "elsewhere" / "entry.json").exists()
    assert not list((store_dir / "states").iterdir())


def test_a_copy_without_empty_folders_is_a_store(store_dir):
    Store(store_dir).save(entry())
    for name in ("locks", "unfinished"):
        for path in (store_dir / name).iterdir():
            path.unlink()
        (store_dir / name).rmdir()
    store = Store(store_dir)
    assert store.load(key()) is not None and kinds(store) == ["state"] and store.sweep(0) == []
    store.checkpoint(key("b")).stage("training").save(entry(name="b"))
    store.save(entry(name="c"))
    assert kinds(store) == ["state", "state", "training"]


def read_as_a_user() -> None:
    without_privileges()
    store = Store(Path(sys.argv[1]))
    assert store.load(key()) is not None and store.reread(key()) is not None and len(store.listing()) == 1
    assert store.find_or_make(key(), pytest.fail, pytest.fail, pytest.fail) is not None
    assert store.checkpoint(key()).stages() == []
    for write in (lambda: store.save(entry(name="b")), lambda: store.lock(key()).__enter__(), lambda: store.shrink(0)):
        with pytest.raises(StoreError, match=r"cannot write to .*: Permission denied"):
            write()


@pytest.mark.parametrize("whole", [True, False], ids=["as it was made", "without empty folders"])
def test_a_read_only_store_can_be_read(store_dir, whole):
    Store(store_dir).save(entry())
    if not whole:
        (store_dir / "unfinished").rmdir()
    read_only(store_dir)
    try:
        with Forked(str(store_dir), run=read_as_a_user) as process:
            said, _ = process.communicate()
        assert process.returncode == 0, said
    finally:
        writable(store_dir)


def hold() -> None:
    with Store(Path(sys.argv[1])).lock(key()):
        print("held", flush=True)
        time.sleep(60)


def test_the_lock_of_a_dead_process_does_not_block(store_dir):
    from filelock import FileLock, Timeout

    with Forked(str(store_dir), run=hold) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Timeout):  # while it lives, it is held
            FileLock(store_dir / "locks" / f"{key()}.lock").acquire(timeout=0.2)
        holder.kill()
    began = time.monotonic()
    with Store(store_dir).lock(key()):
        assert time.monotonic() - began < 5


def test_a_state_that_is_replaced_while_it_is_read_is_no_damage(store_dir, monkeypatch):
    """Another process takes it away and makes it again between the reading of its two files."""
    store, replaced = Store(store_dir), list[bool]()
    store.save(entry(1.0))
    real = read_tensor_file

    def meanwhile(path: Path) -> bytes:
        data = real(path)
        if not replaced:
            replaced.append(True)
            store.save(entry(2.0))
        return data

    monkeypatch.setattr("scail.storage.store.read_tensor_file", meanwhile)
    assert store.load(key()).facts["value"] == 2.0 and replaced
    replaced.clear()
    monkeypatch.setattr(store, "save", lambda made: store.remove(made.key))
    assert store.load(key()) is None and replaced


def test_a_state_without_rights_is_damage_not_a_traceback(store_dir, monkeypatch):
    store = Store(store_dir)
    store.save(entry())

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("scail.storage.store.read_tensor_file", refuse)
    with pytest.raises(DamagedEntry, match=r"tensors\.safetensors: Permission denied"):
        store.load(key())
