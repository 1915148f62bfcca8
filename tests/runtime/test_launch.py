"""What torchrun tells a process, and what only looks like it."""

from __future__ import annotations

import pytest

from scail.runtime.launch import started_ranks


def test_without_torchrun_there_are_no_ranks(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("RANK", "1")
    assert started_ranks() is None


@pytest.mark.parametrize(
    ("rank", "size"),
    [(None, None), ("0", None), (None, "2"), ("2", "2"), ("-1", "2"), ("", "2"), ("x", "2"), ("²", "3")],
)
def test_half_of_what_torchrun_sets_is_an_error(monkeypatch, rank, size):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    for name, value in (("RANK", rank), ("WORLD_SIZE", size)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"TORCHELASTIC_RUN_ID is set.* Start with torchrun, or unset"):
        started_ranks()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert started_ranks() == (1, 2)
