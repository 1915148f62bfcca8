"""Watch what a process does to files, from outside, by its system calls: what native code writes is seen, too.

The system hands every call that changes files to this process before it is carried out (seccomp's user notification,
Linux 5.5 or newer). So a process can be killed before any of them, or be told that the disk is full.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CALLS = {
    1: "write", 2: "open", 18: "pwrite", 20: "writev", 40: "sendfile", 74: "fsync", 75: "fdatasync", 76: "truncate",
    77: "ftruncate", 82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink", 88: "symlink",
    257: "openat", 258: "mkdirat", 263: "unlinkat", 264: "renameat", 265: "linkat", 266: "symlinkat",
    285: "fallocate", 296: "pwritev", 306: "syncfs", 316: "renameat2", 326: "copy_file_range", 328: "pwritev2",
    9: "mmap", 162: "sync", 425: "io_uring_setup", 437: "openat2",
}  # fmt: skip
"""By their numbers on x86-64."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_SHARED, _AT_FDCWD, _AT_REMOVEDIR = 1, -100, 0x200
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # of the little machine that filters calls
_NOTIFY, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_SECONDS = 120.0
KILL = -1
"""In place of an error: the process is killed before this operation."""


@dataclass(frozen=True)
class Operation:
    """A change of a file or folder, or its flushing to the disk; paths are relative to the folder that is watched."""

    kind: str
    path: str
    to: str = ""
    """rename, link: the new name."""
    data: bytes = b""
    """write: what is written."""
    offset: int | None = None
    """write: where; None: at the end. truncate: the length."""
    flags: int = 0
    """open: how."""


Answer = Callable[[int, Operation], int]
"""Given the number of an operation: 0 lets it go on; an error's number lets it fail; KILL."""


def go_on(number: int, operation: Operation) -> int:
    """Only watch."""
    return 0


def cannot_watch() -> str | None:
    """Why this system cannot do it; None: it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "system calls are watched on Linux on x86-64 only"
    if not (child := _fork()):
        try:
            _filtered()
        except OSError:
            os._exit(1)
        os._exit(0)
    able = os.waitpid(child, 0)[1] == 0
    return None if able else "this system does not let a process watch another one's system calls"


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """As of a Popen: below 0 where a signal ended it."""
    said: str
    operations: list[Operation]
    failed: list[Operation]
    """Those that were answered with an error, and so did not happen."""


def watched(folder: Path, work: Callable[[], object], answer: Answer | None = None) -> Ended:
    """Do this in a process of its own, in this folder; `answer` is asked before each change of what is below it.

    Without `answer` nothing is watched. After two minutes it is killed.
    """
    ours, theirs = socket.socketpair()
    reader, writer = os.pipe()
    if not (child := _fork()):
        with contextlib.suppress(OSError):  # nobody else's: a supervisor that ends must not be waited for
            ours.close()
            os.close(reader)
        _carry_out(folder, work, theirs if answer else None, writer)
    theirs.close()
    os.close(writer)
    operations, failed = list[Operation](), list[Operation]()
    late = time.monotonic() + _SECONDS
    said = list[bytes]()
    listener = socket.recv_fds(ours, 1, 1)[1][0] if answer else None
    ours.close()
    places = _Places(folder)
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    if listener is not None:
        poll.register(listener, select.POLLIN)
    open_ends = {reader} | ({listener} if listener is not None else set())
    while reader in open_ends:
        if time.monotonic() > late:
            os.kill(child, signal.SIGKILL)
            said.append(f"\nkilled after {_SECONDS:.0f} seconds".encode())
            late += _SECONDS
        for end, event in poll.poll(1000):
            if event & select.POLLIN and end == reader:
                if data := os.read(reader, 1 << 16):
                    said.append(data)
                    continue
            elif event & select.POLLIN:
                assert answer is not None
                _answered(end, child, places, operations, failed, answer)
                continue
            poll.unregister(end)
            open_ends.discard(end)
    for end in (reader, *([listener] if listener is not None else [])):
        os.close(end)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(code, b"".join(said).decode(errors="replace"), operations, failed)


def _fork() -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons: threads do not come along
        return os.fork()


def _carry_out(folder: Path, work: Callable[[], object], tell: socket.socket | None, output: int) -> None:
    """In the new process: never returns."""
    code = 1
    try:
        os.chdir(folder)
        for number in (1, 2):
            os.dup2(output, number)
        os.close(output)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        if tell is not None:
            listener = _filtered()
            socket.send_fds(tell, [b"x"], [listener])
            tell.close()
            os.close(listener)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _filtered() -> int:
    """From here on this process and those that it starts are watched; where their calls arrive."""
    lines = [(_LOAD, 0, 0, 0)]
    for number, name in _CALLS.items():
        if name in ("open", "openat"):  # the low half of the argument with the flags
            lines += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, 16 + 8 * (1 if name == "open" else 2))]
            lines += [(_ANY_BIT, 0, 1, _WRITES), (_RETURN, 0, 0, _NOTIFY), (_RETURN, 0, 0, _ALLOW)]
        elif name == "mmap":  # shared, and to be written
            lines += [(_EQUAL, 0, 6, number), (_LOAD, 0, 0, 16 + 8 * 2), (_ANY_BIT, 0, 3, 2)]
            lines += [(_LOAD, 0, 0, 16 + 8 * 3), (_ANY_BIT, 0, 1, _SHARED), (_RETURN, 0, 0, _NOTIFY)]
            lines += [(_RETURN, 0, 0, _ALLOW)]
        else:
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    text = b"".join(struct.pack("HBBI", *line) for line in lines)
    content = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(content))
    system = ctypes.CDLL(None, use_errno=True)
    if system.prctl(38, 1, 0, 0, 0):  # no new privileges: what an ordinary user may do
        raise OSError(ctypes.get_errno(), "prctl")
    listener = system.syscall(317, 1, 8, program)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(listener)


def _answered(
    listener: int, child: int, places: _Places, operations: list[Operation], failed: list[Operation], answer: Answer
) -> None:
    """One call that waits: it goes on, fails, or its process is killed."""
    call = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, call)
    except OSError:  # it was killed meanwhile
        return
    identity, task, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", call)
    error = 0
    try:
        operation = places.operation(task, _CALLS[number], arguments)
    except OSError:
        if places.killed:  # another thread's call
            return
        raise
    if operation is not None:
        error = answer(len(operations) + len(failed), operation)
        (failed if error else operations).append(operation)
    if error == KILL:
        places.killed = True
        os.kill(child, signal.SIGKILL)
        return
    flags = 0 if error else 1  # 1: carry it out
    with contextlib.suppress(OSError):  # it was killed meanwhile
        fcntl.ioctl(listener, _ANSWER, struct.pack("QqiI", identity, 0, -error, flags))


class _Places:
    """What the arguments of a call mean: the memory and the open files of the process that waits."""

    def __init__(self, folder: Path) -> None:
        self._root = os.path.realpath(folder)
        self.killed = False
        """The process is killed: what its threads wait with counts no more."""

    def operation(self, task: int, name: str, given: list[int]) -> Operation | None:
        """What this call does below the folder; None: nothing."""
        return getattr(self, f"_{name}", self._other)(task, given) if name else None

    def _inside(self, path: str) -> str | None:
        return os.path.relpath(path, self._root) if path == self._root or path.startswith(f"{self._root}/") else None

    def _of_file(self, task: int, number: int) -> str | None:
        try:
            return self._inside(os.readlink(f"/proc/{task}/fd/{_signed(number)}"))  # noqa: PTH115
        except OSError:
            return None

    def _named(self, task: int, address: int, folder: int = _AT_FDCWD) -> str | None:
        text = self._memory(task, address).decode(errors="surrogateescape")
        if not text.startswith("/"):
            base = f"/proc/{task}/cwd" if _signed(folder) == _AT_FDCWD else f"/proc/{task}/fd/{_signed(folder)}"
            text = f"{os.readlink(base)}/{text}"  # noqa: PTH115
        head, _, tail = os.path.normpath(text).rpartition("/")
        return self._inside(f"{os.path.realpath(head or '/').rstrip('/')}/{tail}")

    def _memory(self, task: int, address: int, length: int | None = None) -> bytes:
        """So many bytes; or up to a zero, which names end with."""
        with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            memory.seek(address)
            if length is not None:
                found = b""
                while len(found) < length and (more := memory.read(length - len(found))):
                    found += more
                return found
            found = b""
            while b"\0" not in found:
                found += memory.read(4096 - (address + len(found)) % 4096)
            return found.partition(b"\0")[0]

    def _offset(self, task: int, number: int) -> int | None:
        with open(f"/proc/{task}/fdinfo/{_signed(number)}", encoding="ascii") as info:  # noqa: PTH123
            fields = dict(line.split(":", 1) for line in info if ":" in line)
        return None if int(fields["flags"], 8) & os.O_APPEND else int(fields["pos"])

    def _write(self, task: int, given: list[int]) -> Operation | None:
        path = self._of_file(task, given[0])
        if path is None:
            return None
        return Operation("write", path, data=self._memory(task, *given[1:3]), offset=self._offset(task, given[0]))

    def _pwrite(self, task: int, given: list[int]) -> Operation | None:
        path = self._of_file(task, given[0])
        return path and Operation("write", path, data=self._memory(task, *given[1:3]), offset=given[3])

    def _writev(self, task: int, given: list[int]) -> Operation | None:
        path = self._of_file(task, given[0])
        if path is None:
            return None
        parts = struct.iter_unpack("QQ", self._memory(task, given[1], 16 * given[2]))
        data = b"".join(self._memory(task, address, length) for address, length in parts)
        return Operation("write", path, data=data, offset=self._offset(task, given[0]))

    def _open(self, task: int, given: list[int]) -> Operation | None:
        return self._openat(task, [_AT_FDCWD, *given])

    def _openat(self, task: int, given: list[int]) -> Operation | None:
        path = self._named(task, given[1], given[0])
        if path is None or not given[2] & (os.O_CREAT | os.O_TRUNC) or given[2] & os.O_TMPFILE == os.O_TMPFILE:
            return None
        return Operation("open", path, flags=given[2] & (os.O_CREAT | os.O_TRUNC | os.O_EXCL))

    def _creat(self, task: int, given: list[int]) -> Operation | None:
        return self._openat(task, [_AT_FDCWD, given[0], os.O_CREAT | os.O_TRUNC])

    def _ftruncate(self, task: int, given: list[int]) -> Operation | None:
        path = self._of_file(task, given[0])
        return path and Operation("truncate", path, offset=given[1])

    def _fsync(self, task: int, given: list[int]) -> Operation | None:
        path = self._of_file(task, given[0])
        return path and Operation("flush", path)

    _fdatasync = _fsync

    def _truncate(self, task: int, given: list[int]) -> Operation | None:
        path = self._named(task, given[0])
        return path and Operation("truncate", path, offset=given[1])

    def _mkdir(self, task: int, given: list[int]) -> Operation | None:
        return self._mkdirat(task, [_AT_FDCWD, *given])

    def _mkdirat(self, task: int, given: list[int]) -> Operation | None:
        path = self._named(task, given[1], given[0])
        return path and Operation("mkdir", path)

    def _unlink(self, task: int, given: list[int]) -> Operation | None:
        return self._unlinkat(task, [_AT_FDCWD, given[0], 0])

    def _rmdir(self, task: int, given: list[int]) -> Operation | None:
        return self._unlinkat(task, [_AT_FDCWD, given[0], _AT_REMOVEDIR])

    def _unlinkat(self, task: int, given: list[int]) -> Operation | None:
        path = self._named(task, given[1], given[0])
        return path and Operation("rmdir" if given[2] & _AT_REMOVEDIR else "unlink", path)

    def _rename(self, task: int, given: list[int]) -> Operation | None:
        return self._renameat(task, [_AT_FDCWD, given[0], _AT_FDCWD, given[1]])

    def _renameat(self, task: int, given: list[int]) -> Operation | None:
        path, to = self._named(task, given[1], given[0]), self._named(task, given[3], given[2])
        assert (path is None) == (to is None), "into the folder that is watched, or out of it"
        return path and Operation("rename", path, str(to))

    _renameat2 = _renameat

    def _mmap(self, task: int, given: list[int]) -> Operation | None:
        assert self._of_file(task, given[4]) is None, "a file is written through memory: this cannot be followed"
        return None

    def _io_uring_setup(self, task: int, given: list[int]) -> Operation | None:
        raise AssertionError("writes through io_uring cannot be followed")

    def _linkat(self, task: int, given: list[int]) -> Operation | None:
        raise AssertionError("links cannot be followed")

    _link = _symlink = _symlinkat = _openat2 = _linkat

    def _other(self, task: int, given: list[int]) -> Operation | None:
        """Calls that nothing in scail makes on its files: if one does, the tests must learn it."""
        paths = {self._of_file(task, number) for number in given[:3:2]}
        assert paths == {None}, f"a call that is not known here, on {paths}"
        return None


def _signed(number: int) -> int:
    return ctypes.c_int(number & 0xFFFFFFFF).value


ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}
