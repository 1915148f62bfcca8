"""Readers of bytes, fuzzed by coverage: Atheris (libFuzzer) keeps what reaches new lines of them, and changes it on.

`python -m tests.hostile.guided` is one of its processes; `guided` starts it and says what came of it.
"""

from __future__ import annotations

import gzip
import io
import json
import mmap
import re
import struct
import subprocess
import sys
import tarfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.hostile.trial import Tried

SECONDS, MEMORY = 60, 2048
"""For one input, by the clock; MiB of a process."""
_COUNTS = struct.Struct("<4Q")  # inputs, read, refused, failures
_INSTRUMENTED = ("scail", "pickletools", "tarfile", "gzip", "json", "yaml", "zipfile")
Read = Callable[[bytes, Path], Any]


@dataclass(frozen=True)
class Guided:
    """A reader of bytes, and bytes that it can read."""

    read: Callable[[], Read]
    """Gives the reader; what it needs is imported here, so that it is instrumented."""
    seeds: Callable[[], list[bytes]]


def _pickles() -> Read:
    from scail.datasets.sources.plain_pickle import read_plain

    return lambda data, path: read_plain(data)


def _matlab() -> Read:
    from scail.datasets.sources.mat_file import read_table

    return lambda data, path: read_table(data, "synsets", 2**20)


def _idx() -> Read:
    from scail.datasets.sources.mnist import read_idx

    return _of_file(lambda path: read_idx(path, 3))


def _yaml() -> Read:
    from scail.benchmark.grid_file import read_grid_file
    from scail.storage.plain_yaml import read_yaml

    def read(data: bytes, path: Path) -> Any:
        path.write_bytes(data)
        return read_grid_file(path), read_yaml(data.decode("utf-8", "replace"), str(path))

    return read


def _records() -> Read:
    from scail.storage.reading import read_json, read_json_lines

    return _of_file(lambda path: (read_json_lines(path), read_json(path)))


def _manifests() -> Read:
    from scail.classifier.folder.manifest import read_manifest
    from scail.classifier.folder.record import digest_of_record

    def read(data: bytes, path: Path) -> Any:
        """Signed anew, as by somebody who knows how; else nothing behind the checksum is ever reached."""
        folder = path.with_name("model")
        folder.mkdir(exist_ok=True)
        try:
            record = json.loads(data)
            data = json.dumps({**record, "sha256": digest_of_record(record)}).encode()
        except (ValueError, TypeError, RecursionError, AttributeError):
            pass
        (folder / "manifest.json").write_bytes(data)
        return read_manifest(folder)

    return read


def _weights() -> Read:
    from scail.networks.pretrained import start_network

    return _of_file(lambda path: start_network("resnet8-half", path, 1))


def _members() -> Read:
    from scail.storage.unpacking import read_members, read_unpacked

    def read(data: bytes, path: Path) -> Any:
        path.write_bytes(data)
        packed = path.with_suffix(".gz")
        packed.write_bytes(data)
        return read_members(path, lambda name: name[:20], 2**16), read_unpacked(packed, 2**16)

    return read


def _archives() -> Read:
    from scail.server.archives import pictures_in
    from scail.server.limits import Limits
    from scail.server.refusals import Refused

    def read(data: bytes, path: Path) -> Any:
        try:
            return pictures_in(data, Limits())
        except Refused as refused:
            raise ValueError(str(refused)) from None

    return read


def _of_file(of: Callable[[Path], Any]) -> Read:
    def read(data: bytes, path: Path) -> Any:
        path.write_bytes(data)
        return of(path)

    return read


def _seeds(name: str, *suffixes: str) -> Callable[[], list[bytes]]:
    """The sound files of a reader of `READERS`."""

    def made() -> list[bytes]:
        import tempfile

        from tests.hostile.readers import READERS

        with tempfile.TemporaryDirectory() as place:
            paths = READERS[name].make(Path(place))
            return [path.read_bytes() for path in paths if path.suffix in suffixes or not suffixes]

    return made


def _packed() -> list[bytes]:
    plain, packed = io.BytesIO(), io.BytesIO()
    for file, mode in ((plain, "w"), (packed, "w:gz")):
        with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
            member = tarfile.TarInfo("a/train")
            member.size = 600
            archive.addfile(member, io.BytesIO(bytes(600)))
    return [plain.getvalue(), packed.getvalue(), gzip.compress(b"text")]


GUIDED = {
    "pickles, guided": Guided(_pickles, _seeds("cifar pickles")),
    "MATLAB tables, guided": Guided(_matlab, _seeds("ilsvrc devkit", ".mat")),
    "IDX, guided": Guided(_idx, _seeds("idx")),
    "YAML, guided": Guided(_yaml, _seeds("yaml grids")),
    "JSON records, guided": Guided(_records, lambda: [b'{"a": [1, 2.5, null, "x"]}', b'{"a": 1}\n{"b": true}\n']),
    "signed manifests, guided": Guided(_manifests, _seeds("signed manifests")),
    "weights, guided": Guided(_weights, _seeds("weights")),
    "tar and gzip, guided": Guided(_members, _packed),
    "archives sent, guided": Guided(_archives, _seeds("archives sent")),
}


def is_here() -> bool:
    """Whether Atheris is installed."""
    return find_spec("atheris") is not None


def guided(name: str, place: Path, seconds: float) -> Tried:
    """Fuzz this reader in processes of its own; one that ends before its time is a failure, and another one goes on."""
    tried, corpus, seeds = Tried(), place / "corpus", GUIDED[name].seeds()
    corpus.mkdir()
    until = time.monotonic() + seconds
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(data)
    counts, said = place / "counts", place / "failures"
    said.touch()
    while (left := int(until - time.monotonic())) > 0:
        counts.write_bytes(bytes(_COUNTS.size))
        command = [sys.executable, "-m", "tests.hostile.guided", name, str(place)]
        command += [str(corpus), f"-max_total_time={left}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEMORY}"]
        command += [f"-max_len={max(4096, 2 * max(map(len, seeds)))}", f"-artifact_prefix={place}/", "-verbosity=0"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        inputs, read, refused, _ = _COUNTS.unpack(counts.read_bytes())
        tried.inputs, tried.read, tried.refused = tried.inputs + inputs, tried.read + read, tried.refused + refused
        if done.returncode:
            why = re.findall(r"ERROR: .*|\w*Error: .*", done.stderr)[-1:] or done.stderr.strip().splitlines()[-1:]
            tried.failures.append(f"{name}: ended with {done.returncode}: {' '.join(why)[:300]}")
            if not inputs:
                break
    tried.failures += said.read_text().splitlines()
    return tried


def _fuzz(name: str, place: Path, options: list[str]) -> None:
    """One process of libFuzzer, which ends it."""
    import atheris

    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        read = GUIDED[name].read()
    warnings.simplefilter("ignore")
    with (place / "counts").open("r+b") as file:
        counts = mmap.mmap(file.fileno(), _COUNTS.size)
    known, path = set[str](), place / "input"

    def one(data: bytes) -> None:
        inputs, values, refused, failures = _COUNTS.unpack(counts[:])
        try:
            read(data, path)
            values += 1
        except ValueError as error:
            refused += 1
            trouble = _unclear(str(error))
        except Exception as error:
            trouble = f"{type(error).__name__}: {str(error)[:200]!r}"
        else:
            trouble = None
        if trouble is not None and (kind := re.sub(r"[0-9]+", "0", trouble)[:60]) not in known:
            known.add(kind)
            failures += 1
            (place / f"failure-{failures}").write_bytes(data)
            with (place / "failures").open("a") as file:
                print(f"{name}: {trouble} ({data[:80]!r})", file=file)
        counts[:] = _COUNTS.pack(inputs + 1, values, refused, failures)

    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def _unclear(text: str) -> str | None:
    return f"not one line: {text[:200]!r}" if not text or "\n" in text else None


if __name__ == "__main__":
    _fuzz(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
