"""The container file and the systemd unit: what they name is there, and their steps work in a clean directory."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import site
import subprocess
import sys
import urllib.error
import urllib.request
import venv
from pathlib import Path

import pytest
import tyro

from scail.cli.serve import ServeCommand

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")


def copied() -> list[str]:
    return [name for line in re.findall(r"^COPY (.+)$", CONTAINER, re.M) for name in line.split()[:-1]]


def options(command: list[str]) -> ServeCommand:
    """What follows `scail serve`."""
    return tyro.cli(ServeCommand, args=command[2:])


def test_what_the_container_file_names_is_there():
    assert all((ROOT / name).exists() for name in copied())
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "constraints.txt", "src"} <= set(copied())
    command = json.loads(re.search(r"^CMD (\[.+\])$", CONTAINER, re.M)[1])
    asked = options(command)
    assert asked.model == Path("/models/model") and asked.host == "0.0.0.0" and asked.token is None


def test_what_the_unit_names_is_there():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "scail.service", encoding="utf-8")
    asked = options(unit["Service"]["ExecStart"].split())
    assert asked.host == "127.0.0.1" and asked.model.is_relative_to("/var/lib/" + unit["Service"]["StateDirectory"])
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.soak
def test_the_steps_of_the_container_file(tmp_path):
    """In a clean directory; what pip would fetch is taken from here, but for what builds the package."""
    pytest.importorskip("fastapi")
    for name in copied():
        place, to = ROOT / name, tmp_path / "src" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(place, to) if place.is_dir() else shutil.copy(place, to)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    packages = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (packages / "here.pth").write_text(next(p for p in site.getsitepackages() if p.startswith(sys.prefix)) + "\n")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"SCAIL_CACHE": str(tmp_path / "cache")}
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "."]
    subprocess.run(install, cwd=tmp_path / "src", env=environment, check=True)
    assert (packages / "scail/server/page/index.html").is_file() and (packages / "scail/report/page/dom.js").is_file()
    command = json.loads(re.search(r"^CMD (\[.+\])$", CONTAINER, re.M)[1])
    command = [str(python.with_name("scail")), "serve", str(tmp_path / "models/model"), *command[3:-1], "0"]
    environment["SCAIL_TOKEN"] = "a-token"
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    try:
        port = server.stdout.readline().strip().rpartition(":")[2]
        check = re.search(r"^HEALTHCHECK .*CMD (\[.+\])$", CONTAINER, re.M)[1].replace(":8000", f":{port}")
        subprocess.run([str(python), *json.loads(check)[1:]], env=environment, check=True)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/classes")
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()
