"""Every test has its own cache and store: nothing of the user's is read or written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

_PLACE = tempfile.TemporaryDirectory(prefix="scail-tests-")
os.environ["SCAIL_CACHE"] = _PLACE.name
os.environ.pop("SCAIL_STORE", None)
os.environ.pop("SCAIL_STORE_LIMIT", None)
torch.set_num_threads(1)  # also for fixtures of modules, which are made before those of tests


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors are quickest, and sums the same everywhere, on one thread; a test may have asked for more."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny():  # type: ignore[no-untyped-def]
    """A whole experiment in about a second: six digits in three states, one or two epochs."""
    from scail.config.recipes import quick

    experiment = quick("digits").but(classes=6, images_per_class=20, states=3, memory=12)
    schedules = experiment.recipe.schedules.with_epochs((2, 1)).but([("bic_correction", "epochs", 5)])
    return replace(experiment, recipe=replace(experiment.recipe, schedules=schedules))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are empty files: to draw them takes longer than a tiny run, and others look at them."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, path, **_: Path(path).touch())


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    """A store of the test's own."""
    return tmp_path / "store"
