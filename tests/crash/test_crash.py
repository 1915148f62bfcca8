"""A few of the many points at which `make crash` kills commands; and whether its tools see what they should."""

from __future__ import annotations

import errno
import os
import threading
from functools import partial
from pathlib import Path

import pytest

from scail.storage.atomic import write_text
from scail.storage.flushing import Flushed
from tests.crash.commands import COMMANDS
from tests.crash.disk import Disk, make, tree_of
from tests.crash.system_calls import KILL, Ended, Operation, cannot_watch, go_on, watched
from tests.crash.trial import KINDS, count

REASON = cannot_watch()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def followed(folder: Path, work) -> tuple[Ended, Disk]:
    """What was done there, and the disk after it."""
    disk = Disk(folder)
    ended = watched(folder, work, go_on)
    assert ended.code == 0, ended.said
    for operation in ended.operations:
        disk.apply(operation)
    return ended, disk


def much() -> None:
    """Files and folders, changed in many ways."""
    Path("a/b").mkdir(parents=True)
    Path("a/b/x").write_bytes(b"12345")
    with Path("a/b/x").open("ab") as file:
        file.write(b"678")
    with Path("a/b/x").open("r+b") as file:
        file.seek(2)
        file.write(b"--")
        file.truncate(6)
    Path("a/y").write_text("y")
    Path("a/b").rename("c")
    Path("a/y").replace("old")
    Path("c/none").unlink(missing_ok=True)
    Path("a").rmdir()
    os.writev(os.open("c/z", os.O_WRONLY | os.O_CREAT), [b"1", b"23"])
    inside = os.open("c", os.O_RDONLY)
    os.mkdir("d", dir_fd=inside)
    os.pwrite(os.open("d/p", os.O_WRONLY | os.O_CREAT, dir_fd=inside), b"p", 3)
    threads = [threading.Thread(target=lambda n=n: Path(f"t{n}").write_text(str(n) * 5000)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_what_is_seen_is_what_was_done(tmp_path):
    (tmp_path / "old").write_text("old")
    _, disk = followed(tmp_path, much)
    assert disk.as_seen() == tree_of(tmp_path) and len(disk.as_seen()) == 10


def native() -> None:
    import onnx
    import pyarrow
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.ones(100_000)}, "tensors")
    with pyarrow.OSFile("table", "wb") as file:
        file.write(b"arrow" * 1000)
    onnx.save(onnx.ModelProto(producer_name="x"), "graph")


def test_what_native_code_writes_is_seen(tmp_path):
    _, disk = followed(tmp_path, native)
    assert disk.as_seen() == tree_of(tmp_path) and len(disk.as_seen()["tensors"]) > 400_000


def swap(flushed: Flushed = Flushed.NAME) -> None:
    write_text(Path("a"), "new", flushed)


def losses(disk: Disk) -> dict[str, set[bytes | None]]:
    """By how the power was lost, what is then under the name."""
    return {how: tree.get("a") for how, tree in disk.after_power_loss()}


def test_what_was_not_flushed_can_be_lost(tmp_path):
    make({"a": b"old"}, tmp_path)
    _, disk = followed(tmp_path, lambda: Path("a").write_text("new!"))
    assert set(losses(disk).values()) == {b"old", b"ne", b"new!"}
    make({"a": b"old"}, tmp_path)
    _, disk = followed(tmp_path, partial(swap, Flushed.NOTHING))
    assert set(losses(disk).values()) == {b"old", b"", b"n"}
    make({"a": b"old"}, tmp_path)
    _, disk = followed(tmp_path, partial(swap, Flushed.CONTENT))
    assert set(losses(disk).values()) == {b"old", b"new"}
    make({"a": b"old"}, tmp_path)
    ended, disk = followed(tmp_path, swap)
    assert set(losses(disk).values()) == {b"new"}
    make({"a": b"old"}, tmp_path)
    disk, seen = Disk(tmp_path), set()
    for operation in ended.operations:
        disk.apply(operation)
        seen |= {*losses(disk).values()}
    assert seen == {b"old", b"new"}


def happens(at: int, what: int, number: int, operation: Operation) -> int:
    return what if number == at else 0


def test_killed_or_failed_it_stops_there(tmp_path):
    make({"a": b"old"}, tmp_path)
    operations = watched(tmp_path, swap, go_on).operations
    at = [operation.kind for operation in operations].index("rename")
    make({"a": b"old"}, tmp_path)
    assert watched(tmp_path, swap, partial(happens, at, KILL)).code == -9
    assert (tmp_path / "a").read_text() == "old" and len([*tmp_path.iterdir()]) == 2
    ended = watched(tmp_path, swap, partial(happens, at, errno.EIO))
    assert ended.code == 1 and "Input/output error" in ended.said and (tmp_path / "a").read_text() == "old"


NUMBERS = {one.name: n for n, one in enumerate(COMMANDS)}


@pytest.mark.parametrize("command, most", [("learn, one more", 1), ("store gc", 1)])
def test_a_command_that_is_killed_or_fails_leaves_the_old_or_the_new_and_can_be_repeated(command, most):
    for found in count(NUMBERS[command], KINDS, most):
        assert found.tries == most and found.operations > 15
        assert not found.failures, "\n\n".join(found.failures)
