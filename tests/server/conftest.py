"""A model that was taught once, served to each test from a copy of its own."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from tests.server.serving import ForkedTutor, client_of, taught_model


@pytest.fixture(scope="session")
def taught(tmp_path_factory) -> Path:
    """Red, green and blue pictures, on the pretrained network; with its report on the desk."""
    return taught_model(tmp_path_factory.mktemp("taught"))


@pytest.fixture
def model(taught, tmp_path) -> Path:
    for name in ("m", "m.serve"):
        shutil.copytree(taught / name, tmp_path / name)
    return tmp_path / "m"


@pytest.fixture(autouse=True)
def _quick_tutors(monkeypatch):
    """Tutors are forked from a process that has imported torch: as real as any, and there in milliseconds."""
    monkeypatch.setattr("scail.server.service.start_tutor", partial(ForkedTutor))
    monkeypatch.setattr("scail.server.service.end_tutor", ForkedTutor.end)
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")


@pytest.fixture
def client(model):
    with client_of(model) as client:
        yield client
