"""The plan of the house: few rooms, few layers, every class once and in the file of its name."""

from __future__ import annotations

import ast
import configparser
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "scail"


def classes() -> dict[str, list[Path]]:
    found = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return found


def test_there_are_few_rooms():
    rooms = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert len(rooms) <= 22, sorted(rooms)


def test_there_are_few_layers_and_every_room_has_one():
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter", encoding="utf-8")
    layers = contract["importlinter:contract:rooms"]["layers"].split("\n")
    rooms = [[room.strip().removeprefix("scail.") for room in layer.split("|")] for layer in layers if layer.strip()]
    assert len(rooms) <= 10
    there = {path.stem for path in PACKAGE.iterdir() if path.stem[0].isalpha() and path.suffix in ("", ".py")}
    assert {room for layer in rooms for room in layer} == there
    assert all("ignore_imports" not in contract[name] for name in contract.sections())


def test_no_class_name_exists_twice():
    assert {name: paths for name, paths in classes().items() if len(paths) > 1} == {}


def test_a_class_lives_in_the_file_of_its_name():
    files = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        files[path.stem].append(path)
    for name, (path,) in classes().items():
        own = files.get(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
        assert own is None or path in own, f"{name} is in {path}, and there is {own}"
