"""What is built installs into an empty virtual environment, and works there without the repository."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import scail

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
VERSIONS = os.environ.get("SCAIL_PYTHONS", "").split() or [f"{sys.version_info[0]}.{sys.version_info[1]}"]
"""Of Python; those that are not on this machine are skipped."""


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*words: object, cwd: Path, environment: dict[str, str] | None = None, code: int = 0) -> str:
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=clean() | (environment or {}), capture_output=True, text=True
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def pinned(package: str) -> str:
    return re.search(rf"^{package}==\S+$", CONSTRAINTS.read_text(encoding="utf-8"), re.M)[0]


@functools.cache
def registry_answers() -> bool:
    ask = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--retries", "0"]
    return subprocess.run([*ask, pinned("filelock")], env=clean(), capture_output=True).returncode == 0


def interpreter(version: str) -> Path | None:
    """One that runs: what stands in the PATH may be but a shim."""
    places = [shutil.which(f"python{version}"), *(Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python")]
    own = [sys.executable] if sys.version_info[:2] == tuple(map(int, version.split("."))) else []
    for place in (*own, *filter(None, places)):
        if subprocess.run([place, "-c", "import venv"], capture_output=True).returncode == 0:
            return Path(place)
    return None


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder with the wheel and the source package, made of the files that git knows."""
    pytest.importorskip("build", reason="build is not installed")
    if not registry_answers():
        pytest.skip("no package registry answers")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    place = tmp_path_factory.mktemp("package")
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(("results/", "docs/", "tests/")) and (ROOT / name).exists():
            (place / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / "source" / name)
    run(sys.executable, "-m", "build", "--outdir", place / "dist", cwd=place / "source")
    return place / "dist"


@pytest.mark.soak
def test_what_is_in_it(built):
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name == f"scail-{scail.__version__}-py3-none-any.whl"
    inside = set(zipfile.ZipFile(wheel).namelist())
    own = built.parent / "source/src"
    assert {path.relative_to(own).as_posix() for path in (own / "scail").rglob("*") if path.is_file()} <= inside
    assert {name.split("/")[0] for name in inside} == {"scail", f"scail-{scail.__version__}.dist-info"}
    with tarfile.open(source) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "src/scail/py.typed"} <= names


@pytest.mark.soak
@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_environment(built, version, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    run(python, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    bins = tmp_path / "venv/bin"
    install = [bins / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, pinned("torch"), cwd=tmp_path)
    run(*install, "-c", CONSTRAINTS, next(built.glob("*.whl")), cwd=tmp_path)
    packages = run(bins / "python", "-m", "pip", "list", "--format", "freeze", cwd=tmp_path)
    assert not re.search("^(datasets|pyarrow|pandas|huggingface_hub)==", packages, re.M)

    def call(*words: object, code: int = 0) -> str:
        return run(
            bins / "scail", *words, cwd=tmp_path, environment={"SCAIL_CACHE": str(tmp_path / "cache")}, code=code
        )

    assert call("--version") == f"scail {scail.__version__}\n"
    draw = np.random.default_rng(0)
    for kind, colour in (("red", (200, 40, 40)), ("blue", (40, 40, 200))):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for n in range(6):
            pixels = np.clip(draw.normal(colour, 30, (64, 64, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{n}.png")
    assert "2 classes in 1 state(s)" in call("learn", "model", "photos")
    assert call("predict", "model", "photos/blue/0.png").split("\t")[1].startswith("blue ")
    for words in (["learn", "model", "hf:owner/name"], ["prepare", "photos", "--out", "packed"]):
        assert "pip install 'scail[datasets]'" in call(*words, code=2)
    assert "pip install 'scail[hub]'" in call("push", "model", "hf:owner/name", code=2)
    assert "pip install 'scail[serve]'" in call("serve", "model", code=2)
    told = call("run", "--dataset", "digits", "--states", "5", "--out", "digits")
    assert (
        "ScaIL" in told and (tmp_path / "digits/report.html").is_file() and any((tmp_path / "digits/figures").iterdir())
    )
