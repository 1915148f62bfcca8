"""Packed files: what comes out is what went in, up to a bound."""

from __future__ import annotations

import gzip
import io
import resource
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scail.storage.reading import MIB
from scail.storage.unpacking import read_members, read_unpacked


class Zeros(io.RawIOBase):
    """As many as are asked for."""

    def read(self, size: int = -1) -> bytes:
        return bytes(size)


def packed(members: dict[str, bytes | int], mode: str = "w:gz") -> bytes:
    """A number stands for so many zeros."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = content if isinstance(content, int) else len(content)
            archive.addfile(member, Zeros() if isinstance(content, int) else io.BytesIO(content))
    return made.getvalue()


@settings(max_examples=30, deadline=None)
@given(content=st.binary(max_size=3000), mode=st.sampled_from(["w", "w:gz"]))
def test_members_come_back(tmp_path_factory, content, mode):
    path = tmp_path_factory.mktemp("tar") / "a.tar.gz"
    path.write_bytes(packed({"a/one": content, "a/other": b"x"}, mode))
    assert read_members(path, {"a/one": "one"}.get, MIB) == {"one": content}
    path.write_bytes(gzip.compress(content))
    assert read_unpacked(path, MIB) == content


@pytest.mark.parametrize("wanted", ["large", "last"])
def test_a_bomb_takes_no_memory(tmp_path, wanted):
    path, most = tmp_path / "a.tar.gz", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path.write_bytes(packed({"large": 60 * MIB, "last": b"x"}))
    assert path.stat().st_size < MIB
    with pytest.raises(ValueError, match=r"a\.tar\.gz: cannot be read \(.*60 MiB, expected at most|more than 8 MiB"):
        read_members(path, {wanted: wanted}.get, 2 * MIB)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 30 * 1024


def test_a_member_that_is_too_large_is_named(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(packed({"large": 3 * MIB}))
    with pytest.raises(ValueError, match="'large' has 3 MiB, expected at most 2 MiB"):
        read_members(tmp_path / "a.tar.gz", {"large": "large"}.get, 2 * MIB)


def test_what_is_skipped_is_not_unpacked_beyond_the_bound(tmp_path, monkeypatch):
    (tmp_path / "a.tar.gz").write_bytes(packed({"large": 60 * MIB, "last": b"x"}))
    reached, real = list[int](), gzip.GzipFile.seek
    monkeypatch.setattr(gzip.GzipFile, "seek", lambda file, to, *how: (reached.append(to), real(file, to, *how))[1])
    with pytest.raises(ValueError, match="more than 8 MiB unpacked"):
        read_members(tmp_path / "a.tar.gz", {"last": "last"}.get, 2 * MIB)
    assert max(reached, default=0) <= 9 * MIB


def test_a_gzip_bomb_is_read_up_to_a_bound(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(20 * MIB), 1))
    assert len(read_unpacked(path, MIB)) == MIB + 1


@pytest.mark.parametrize("content", [b"", b"no tar", b"\x1f\x8b", b"\x1f\x8bno gzip", bytes(5000)])
def test_what_is_no_archive_is_a_clear_error_or_empty(tmp_path, content):
    (tmp_path / "a.tar.gz").write_bytes(content)
    try:
        assert read_members(tmp_path / "a.tar.gz", lambda name: name, MIB) == {}
    except ValueError as error:
        assert str(error).startswith(f"{tmp_path}/a.tar.gz: cannot be read") and "\n" not in str(error)
